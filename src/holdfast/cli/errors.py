"""Errors as the CLI shows them: what happened, where, and what to try. As JSON in the API's own shape."""

from __future__ import annotations

import json as encoder
import re
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.errors import HoldfastError, Problem

from . import output

COMMAND = "--"  # the source of a job that was given by options and a command after `--`, not as a file


def show_error(
    error: HoldfastError, *, json: bool, source: str | None = None, outcome: str = "nothing was submitted"
) -> None:
    """On stderr. `source` is the file a job's problems are in, `outcome` what its problems led to."""
    if json:
        output.note(encoder.dumps(as_json(error)))
        return
    problems = getattr(error, "problems", ())
    if problems:
        _show_problems(problems, source, outcome)
        return
    where = _within(getattr(error, "field", None), source)
    output.note(f"error: {where}{output.safe(getattr(error, 'message', error))}", "red")
    for line in _more(error):
        output.note(f"  {output.safe(line)}")


def _within(field: str | None, source: str | None) -> str:
    """The place in the job file, for what only a file can say, such as datasets[0]."""
    if source in (None, COMMAND) or not field or not {".", "["} & set(field):
        return ""
    return output.safe(f"{source}: {field}: ")


_FRAMEWORKS = (
    ("Value error, ", ""),
    ("Input should be greater than or equal to ", "must be at least "),
    ("Input should be less than or equal to ", "must be at most "),
    ("Input should be a valid integer, unable to parse string as an integer", "must be a whole number"),
    ("Input should be a valid number, unable to parse string as a number", "must be a number"),
)  # words of the library that reads our options, and ours


def show_usage(message: str, command: str, *, json: bool) -> None:
    for theirs, ours in _FRAMEWORKS:
        message = message.replace(theirs, ours)
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


def _show_problems(problems: Sequence[Problem], source: str | None, outcome: str) -> None:
    """One line each, in the form editors and people know: file:line: field: message (hint)."""
    for problem in problems:
        advice = f" ({problem.hint})" if problem.hint else ""
        output.note(output.safe(f"{_place(problem, source)}: {problem.message}{advice}"), "red")
    count = len(problems)
    output.note(f"error: {count} {'problem' if count == 1 else 'problems'}; {outcome}.")


def _place(problem: Problem, source: str | None) -> str:
    if source == COMMAND:
        return _option(problem.field or "job")
    line = f":{problem.line}" if problem.line is not None else ""
    return f"{source or 'job'}{line}" + (f": {problem.field}" if problem.field else "")


_OPTIONS = {
    "mounts": "--mount",
    "datasets": "--dataset",
    "time_limit": "--time-limit",
    **{
        name: f"--{name}" for name in ("name", "image", "cpu", "memory", "gpu", "env", "instances", "retry", "priority")
    },
    "hold": "--hold",
    "files": "--files",
    "group": "--group",
    "max_retries": "--retry",
}


def _option(field: str) -> str:
    """roles.main.mounts[0].source -> --mount, env.PATH -> --env; a field that no option sets stays as it is."""
    parts = re.sub(r"^roles(\.[^.]+|\[\d+\])\.", "", field).removeprefix("resources.")
    return _OPTIONS.get(re.split(r"[.\[]", parts)[0], field)


def _more(error: HoldfastError) -> Iterator[str]:
    hint, code = getattr(error, "hint", None), getattr(error, "code", "")
    if code == "not_logged_in" and (not hint or "Authorization" in hint):
        hint = "holdfast login URL"  # the server's own advice is for those who write requests
    if hint:
        yield f"try: {hint}"
    if code == "internal" and getattr(error, "request_id", None):
        yield f"request: {getattr(error, 'request_id', '')}"
