"""Error output of the CLI: message, location and hint; as JSON in the format of the API."""

from __future__ import annotations

import json as encoder
import re
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.errors import HoldfastError, Problem

from . import output

COMMAND_SOURCE = "--"  # source of a job made of options and a command after `--`, without a file


def show_error(
    error: HoldfastError, *, json: bool, source: str | None = None, outcome: str = "nothing was submitted"
) -> None:
    """Print an error to stderr. `source`: the invalid job file. `outcome`: the consequence of its problems."""
    if json:
        output.print_note(encoder.dumps(error_to_json(error)))
        return
    problems = getattr(error, "problems", ())
    if problems:
        _show_problems(problems, source, outcome)
        return
    where = _format_field(getattr(error, "field", None), source)
    output.print_note(f"error: {where}{output.escape(getattr(error, 'message', error))}", "red")
    for line in _iter_hints(error):
        output.print_note(f"  {output.escape(line)}")


def _format_field(field: str | None, source: str | None) -> str:
    """Return the field of the job file, if only a file can set it, such as datasets[0]."""
    if source in (None, COMMAND_SOURCE) or not field or not {".", "["} & set(field):
        return ""
    return output.escape(f"{source}: {field}: ")


_REWORDINGS = (
    ("Value error, ", ""),
    ("Input should be greater than or equal to ", "must be at least "),
    ("Input should be less than or equal to ", "must be at most "),
    ("Input should be a valid integer, unable to parse string as an integer", "must be a whole number"),
    ("Input should be a valid number, unable to parse string as a number", "must be a number"),
)  # messages of the library that parses options, and ours


def show_usage_error(message: str, command: str, *, json: bool) -> None:
    for theirs, ours in _REWORDINGS:
        message = message.replace(theirs, ours)
    if json:
        output.print_note(encoder.dumps(_build_error("usage", message, hint=f"{command} --help")))
        return
    output.print_note(f"error: {output.escape(message)}", "red")
    output.print_note(f"  hint: Run `{output.escape(command)} --help`.")


def error_to_json(error: HoldfastError) -> dict[str, Any]:
    own = getattr(error, "as_json", None)
    if own is not None:
        return dict(own())
    field, hint = getattr(error, "field", None), getattr(error, "hint", None)
    code = getattr(error, "code", "error")
    return _build_error(code, str(getattr(error, "message", error)), field=field, hint=hint)


def _build_error(code: str, message: str, *, field: str | None = None, hint: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "field": field, "hint": hint, "request_id": None}}


def _show_problems(problems: Sequence[Problem], source: str | None, outcome: str) -> None:
    """Print one line for each problem, as compilers do: file:line: field: message (hint)."""
    for problem in problems:
        advice = f" ({problem.hint})" if problem.hint else ""
        output.print_note(output.escape(f"{_format_location(problem, source)}: {problem.message}{advice}"), "red")
    count = len(problems)
    consequence = f"; {outcome}" if outcome else ""
    output.print_note(f"error: {count} {'problem' if count == 1 else 'problems'}{consequence}.")


def _format_location(problem: Problem, source: str | None) -> str:
    if source == COMMAND_SOURCE:
        return _find_option(problem.field or "job")
    line = f":{problem.line}" if problem.line is not None else ""
    return f"{source or 'job'}{line}" + (f": {problem.field}" if problem.field else "")


_OPTIONS_BY_FIELD = {
    "mounts": "--mount",
    "datasets": "--dataset",
    "time_limit": "--time-limit",
    **{
        name: f"--{name}"
        for name in ("name", "image", "cpu", "memory", "gpu", "env", "instances", "retry", "priority", "engine")
    },
    "hold": "--hold",
    "files": "--files",
    "group": "--group",
    "max_retries": "--retry",
}


def _find_option(field: str) -> str:
    """roles.main.mounts[0].source -> --mount, env.PATH -> --env; other fields are returned unchanged."""
    parts = re.sub(r"^roles(\.[^.]+|\[\d+\])\.", "", field).removeprefix("resources.")
    return _OPTIONS_BY_FIELD.get(re.split(r"[.\[]", parts)[0], field)


def _iter_hints(error: HoldfastError) -> Iterator[str]:
    hint, code = getattr(error, "hint", None), getattr(error, "code", "")
    if code == "not_logged_in" and (not hint or "Authorization" in hint):
        hint = "Run `holdfast login URL`."  # the server's hint is for API clients
    if hint:
        yield f"hint: {hint}"
    if code == "internal" and getattr(error, "request_id", None):
        yield f"request id: {getattr(error, 'request_id', '')}"
