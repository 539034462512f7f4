"""Mapping of exits to the rows of OpenPAI's exit specification.

`Exit.code` stays the program's own code. The row is found by the kind of the exit, its cause and its signal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ..messages import join_messages
from .exit import Exit, ExitKind, RetryBehaviour
from .log_patterns import find_cause_in_log
from .specs import ExitSpec, load_cause_specs, load_family_specs, load_specs

OTHER_NEGATIVE_CODE = -8000  # row for negative codes that have none
OTHER_POSITIVE_CODE = 256  # row for positive codes that have none

_CODES_BY_KIND = {
    ExitKind.SUCCEEDED: 0,
    ExitKind.OUT_OF_MEMORY: -1200,
    ExitKind.TIME_LIMIT: -1004,
    ExitKind.CANCELLED: -210,
    ExitKind.ATTEMPT_OVER: -220,
    ExitKind.REFUSED: -200,  # unless its cause has its own code, as for the two below
    ExitKind.PLATFORM: -120,
    ExitKind.USER_ERROR: 255,
}
_KINDS_WITH_CAUSE = frozenset({ExitKind.REFUSED, ExitKind.PLATFORM, ExitKind.USER_ERROR})
_KINDS_WITH_HINT = _KINDS_WITH_CAUSE | {ExitKind.OUT_OF_MEMORY, ExitKind.TIME_LIMIT}


def find_spec(exit: Exit) -> ExitSpec:
    return load_specs()[_find_spec_code(exit)]


def _find_spec_code(exit: Exit) -> int:
    if exit.kind in _KINDS_WITH_CAUSE and exit.cause in load_cause_specs():
        return load_cause_specs()[exit.cause].code
    if exit.kind is ExitKind.USER_ERROR and exit.code is not None and exit.code in _load_signal_codes():
        return exit.code
    return _CODES_BY_KIND[exit.kind]


@cache
def _load_signal_codes() -> frozenset[int]:
    return frozenset(spec.code for spec in load_family_specs("signals"))


def find_spec_by_code(code: int) -> ExitSpec:
    """Return the row of a code. A code without a row gets the row for other codes, with its own code."""
    specs = load_specs()
    other = OTHER_NEGATIVE_CODE if code < 0 else OTHER_POSITIVE_CODE
    return specs[code] if code in specs else replace(specs[other], code=code)


def find_cause(tail: str, code: int) -> str:
    """Return the cause found at the end of a failed task's log, or "". Signals need no cause."""
    if not can_have_cause(code):
        return ""
    return str(find_cause_in_log(tail, code) or "")


def can_have_cause(code: int) -> bool:
    """Whether the log of a task with this exit code can contain the cause."""
    return code != 0 and code not in _load_signal_codes()


def add_cause(exit: Exit, cause: str) -> Exit:
    """Return the exit with a cause found in the log, and with the cause in its message."""
    spec = load_cause_specs().get(cause) if cause else None
    return replace(
        exit,
        cause=cause,
        message=join_messages(": ", (exit.message, spec.words)) if spec and spec.words else exit.message,
    )


def find_hint(exit: Exit) -> str:
    """Return a hint for a failure with a known cause or one that a retry does not fix; empty if there is none."""
    if exit.kind not in _KINDS_WITH_HINT:
        return ""
    spec, cause = find_spec(exit), load_cause_specs().get(exit.cause)
    is_explained = (
        exit.kind is ExitKind.USER_ERROR and cause and cause.words and spec.behaviour is RetryBehaviour.UNKNOWN
    )
    if spec.behaviour is RetryBehaviour.PERMANENT or is_explained:
        return (cause and cause.hint) or join_messages(" ", spec.solution)
    return ""
