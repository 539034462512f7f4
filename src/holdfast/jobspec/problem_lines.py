"""Finds the line of a field in a job file, for problems that are found after parsing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from holdfast.core.errors import InvalidJob, Problem

from .document import DocumentNode, parse_document, reparse_with_lines
from .sbatch.holdfast_lines import extract_holdfast_text
from .sbatch.script import is_sbatch_script, split_script

_PATH_STEP_PATTERN = re.compile(r"[^.\[\]]+")
_ROLE_PREFIX_PATTERN = re.compile(r"^roles\.[^.]+\.")


def add_problem_lines(text: str, problems: Iterable[Problem]) -> list[Problem]:
    """Add line numbers to problems, where the text has the field. A file without roles has their fields at the top
    level; then the problems name those."""
    if is_sbatch_script(text):
        text = extract_holdfast_text(split_script(text))
    try:
        document = parse_document(text)
    except InvalidJob:  # it was built from parts, and is not the parsed text
        return list(problems)
    root = (reparse_with_lines(document) or document).root
    return [_locate_problem(root, problem) for problem in problems]


def _locate_problem(root: DocumentNode, problem: Problem) -> Problem:
    has_roles = isinstance(root.value, dict) and "roles" in root.value
    field = problem.field if has_roles else _ROLE_PREFIX_PATTERN.sub("", problem.field, count=1)
    return replace(problem, field=field, line=problem.line or _find_node_line(root, field))


def _find_node_line(node: DocumentNode, field: str) -> int | None:
    """Find the deepest existing part: a short form does not have the field itself."""
    line = None
    for step in _PATH_STEP_PATTERN.findall(field):
        value = node.value
        if isinstance(value, dict) and step in value:
            node = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            node = value[int(step)]
        else:
            break
        line = node.line
    return line
