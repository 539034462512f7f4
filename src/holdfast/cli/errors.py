"""Errors as the CLI shows them: what happened, where, and what to try. As JSON in the API's own shape."""

from __future__ import annotations

import json as encoder
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.errors import HoldfastError, Problem

from . import output


def show_error(error: HoldfastError, *, json: bool, source: str | None = None) -> None:
    """On stderr. `source` is the file a job's problems are in."""
    if json:
        output.note(encoder.dumps(as_json(error)))
        return
    problems = getattr(error, "problems", ())
    if problems:
        _show_problems(problems, source)
        return
    output.note(f"error: {output.safe(getattr(error, 'message', error))}", "red")
    for line in _more(error):
        output.note(f"  {output.safe(line)}")


def show_usage(message: str, command: str, *, json: bool) -> None:
    if json:
        output.note(encoder.dumps(_shape("usage", message, hint=f"{command} --help")))
        return
    output.note(f"error: {output.safe(message)}", "red")
    output.note(f"  try: {output.safe(command)} --help")


def as_json(error: HoldfastError) -> dict[str, Any]:
    own = getattr(error, "as_json", None)
    if own is not None:
        return dict(own())
    field, hint = getattr(error, "field", None), getattr(error, "hint", None)
    code = getattr(error, "code", "error")
    return _shape(code, str(getattr(error, "message", error)), field=field, hint=hint)


def _shape(code: str, message: str, *, field: str | None = None, hint: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "field": field, "hint": hint, "request_id": None}}


def _show_problems(problems: Sequence[Problem], source: str | None) -> None:
    """One line each, in the form editors and people know: file:line: field: message (hint)."""
    where = source or "job"
    for problem in problems:
        line = f":{problem.line}" if problem.line is not None else ""
        field = f" {problem.field}:" if problem.field else ""
        advice = f" ({problem.hint})" if problem.hint else ""
        output.note(output.safe(f"{where}{line}:{field} {problem.message}{advice}"), "red")
    count = len(problems)
    output.note(f"error: {count} {'problem' if count == 1 else 'problems'}; nothing was submitted.")


def _more(error: HoldfastError) -> Iterator[str]:
    hint, code = getattr(error, "hint", None), getattr(error, "code", "")
    if hint:
        yield f"try: {hint}"
    if code == "not_logged_in" and "holdfast login" not in (hint or ""):
        yield "try: holdfast login"
    if code == "internal" and getattr(error, "request_id", None):
        yield f"request: {getattr(error, 'request_id', '')}"
