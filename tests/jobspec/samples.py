"""Golden files, and the site they are parsed for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from holdfast.core.job import GIB, Resources
from holdfast.jobspec import Defaults

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = ".expected.json"

SITE = Defaults(
    instance_types={"cpu-1": Resources(cpu=1, memory=2 * GIB), "gpu-1": Resources(cpu=2, memory=7 * GIB, gpu=1)},
    user="ada",
    file_system="hdfs://store:9000",
)


def golden_files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((GOLDEN / folder).iterdir())]
    return [path for path in found if not path.name.endswith(EXPECTED)]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def check_golden(path: Path, got: Any) -> None:
    """Compare with the file beside it. HOLDFAST_WRITE_GOLDEN=1 writes it anew, for a person to read and commit."""
    expected = path.with_name(path.name + EXPECTED)
    if os.environ.get("HOLDFAST_WRITE_GOLDEN"):
        expected.write_text(json.dumps(got, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    assert got == json.loads(expected.read_text(encoding="utf-8"))
