"""`#HOLDFAST` lines of a batch script: keys of Holdfast's job file that sbatch has no option for."""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import InvalidJob

from ..document import parse_document
from ..fields import Fields, FieldValue, ProblemReport
from ..holdfast_keys import JOB_KEYS
from .script import HOLDFAST_MARKER, BatchScript

_KEYS = {
    name: JOB_KEYS[name]
    for name in (
        "datasets", "engine", "files", "group", "hold", "image", "mounts", "ports", "priority", "retry", "tags",
    )
}  # fmt: skip


def extract_holdfast_text(script: BatchScript) -> str:
    """Return what follows the marker in all lines; other lines are empty, so that lines keep their numbers."""
    lines = {line.number: line.text[1:] for line in script.list_marked_lines(HOLDFAST_MARKER)}
    return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))


def read_holdfast_lines(script: BatchScript, report: ProblemReport) -> dict[str, Any]:
    """Read the lines as one YAML mapping."""
    text = extract_holdfast_text(script)
    if not text.strip():
        return {}
    try:
        document = parse_document(text)
    except InvalidJob as error:
        report.problems += error.problems
        return {}
    report.problems += document.problems
    root = FieldValue(document.root, "", report)
    return root.apply_reader(_read_keys, {})


def _read_keys(root: FieldValue) -> dict[str, Any]:
    fields = Fields(root)
    values = fields.read_fields(_KEYS)
    fields.report_unknown_keys()
    return values
