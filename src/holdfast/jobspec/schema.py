"""`python -m holdfast.jobspec.schema FILE` publishes the JSON Schema of Holdfast's job file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .holdfast_schema import job_schema


def schema_text() -> str:
    return json.dumps(job_schema(), indent=2, ensure_ascii=True) + "\n"


def main(arguments: list[str]) -> None:
    """Write to the file, or to standard output without one."""
    if arguments:
        Path(arguments[0]).write_text(schema_text(), encoding="utf-8")
    else:
        sys.stdout.write(schema_text())


if __name__ == "__main__":
    main(sys.argv[1:])
