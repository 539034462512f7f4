"""Where in the text of a job file a field stands, for what is found wrong only after it was read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from holdfast.core.errors import InvalidJob, Problem

from .document import Node, read_document, with_lines

_STEP = re.compile(r"[^.\[\]]+")
_ONLY_ROLE = re.compile(r"roles\.[^.]+\.")


def with_lines_of(text: str, problems: Iterable[Problem]) -> list[Problem]:
    """The same with their lines, as far as they are in this text."""
    try:
        document = read_document(text)
    except InvalidJob:  # it was made from parts, and this is not what was read
        return list(problems)
    root = (with_lines(document) or document).root
    return [replace(problem, line=problem.line or _line(root, problem.field)) for problem in problems]


def _line(root: Node, field: str) -> int | None:
    """A file with a single role may write its fields at the top."""
    return _find(root, field) or _find(root, _ONLY_ROLE.sub("", field, count=1))


def _find(node: Node, field: str) -> int | None:
    """As deep as the file goes: what has a short form may not have the field itself."""
    line = None
    for step in _STEP.findall(field):
        value = node.value
        if isinstance(value, dict) and step in value:
            node = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            node = value[int(step)]
        else:
            break
        line = node.line
    return line
