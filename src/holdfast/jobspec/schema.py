"""`python -m holdfast.jobspec.schema FILE` publishes the JSON Schema of Holdfast's job file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .holdfast_schema import build_job_schema


def render_schema() -> str:
    return json.dumps(build_job_schema(), indent=2, ensure_ascii=True) + "\n"


def main(arguments: list[str]) -> None:
    """Write the schema to a file, or to standard output."""
    if arguments:
        Path(arguments[0]).write_text(render_schema(), encoding="utf-8")
    else:
        sys.stdout.write(render_schema())


if __name__ == "__main__":
    main(sys.argv[1:])
