"""OpenPAI's exit specification: how a task ended -> the row that OpenPAI's clients know it by.

`Exit.code` stays the program's own. A row is found by what is known beyond it: the kind of exit, its cause, the signal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ..messages import join_messages
from .exit import Behaviour, Exit, ExitKind
from .log_patterns import match_log
from .specs import ExitSpec, load_causes, load_family, load_specs

OTHER_NEGATIVE = -8000  # stands in for negative codes without a row
OTHER_POSITIVE = 256  # and for positive ones

_KINDS = {
    ExitKind.SUCCEEDED: 0,
    ExitKind.OUT_OF_MEMORY: -1200,
    ExitKind.TIME_LIMIT: -1004,
    ExitKind.CANCELLED: -210,
    ExitKind.ATTEMPT_OVER: -220,
    ExitKind.REFUSED: -200,  # unless its cause tells more, as for the two below
    ExitKind.PLATFORM: -120,
    ExitKind.USER_ERROR: 255,
}
_TOLD_BY_CAUSE = frozenset({ExitKind.REFUSED, ExitKind.PLATFORM, ExitKind.USER_ERROR})
_OURS_TO_EXPLAIN = _TOLD_BY_CAUSE | {ExitKind.OUT_OF_MEMORY, ExitKind.TIME_LIMIT}


def spec_of(exit: Exit) -> ExitSpec:
    return load_specs()[_code_of(exit)]


def _code_of(exit: Exit) -> int:
    if exit.kind in _TOLD_BY_CAUSE and exit.cause in load_causes():
        return load_causes()[exit.cause].code
    if exit.kind is ExitKind.USER_ERROR and exit.code is not None and exit.code in _signal_codes():
        return exit.code
    return _KINDS[exit.kind]


@cache
def _signal_codes() -> frozenset[int]:
    return frozenset(spec.code for spec in load_family("signals"))


def spec_for(code: int) -> ExitSpec:
    """A code without a row gets the row for such codes, and stays what it is."""
    specs = load_specs()
    other = OTHER_NEGATIVE if code < 0 else OTHER_POSITIVE
    return specs[code] if code in specs else replace(specs[other], code=code)


def find_cause(tail: str, code: int) -> str:
    """What the end of a failed task's log tells; empty when nothing. A signal says enough by itself."""
    if not may_have_cause(code):
        return ""
    return str(match_log(tail, code) or "")


def may_have_cause(code: int) -> bool:
    """Whether looking at the log of a task that ended with `code` can tell more."""
    return code != 0 and code not in _signal_codes()


def with_cause(exit: Exit, cause: str) -> Exit:
    """A failure whose log told the cause, which its message then says as well."""
    told = load_causes().get(cause) if cause else None
    return replace(
        exit,
        cause=cause,
        message=join_messages(": ", (exit.message, told.words)) if told and told.words else exit.message,
    )


def hint_for(exit: Exit) -> str:
    """What to try after a failure whose cause is known, or that another try would not mend; empty when there is nothing
    of use to say."""
    if exit.kind not in _OURS_TO_EXPLAIN:
        return ""
    spec, cause = spec_of(exit), load_causes().get(exit.cause)
    told = exit.kind is ExitKind.USER_ERROR and cause and cause.words and spec.behaviour is Behaviour.UNKNOWN
    if spec.behaviour is Behaviour.PERMANENT or told:
        return (cause and cause.hint) or join_messages(" ", spec.solution)
    return ""
