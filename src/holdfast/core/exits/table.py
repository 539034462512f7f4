"""OpenPAI's exit specification: how a task ended -> the row that OpenPAI's clients know it by.

`Exit.code` stays the program's own. A row is found by what is known beyond it: the kind of exit, its cause, the signal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.core.messages import join_messages

from .exit import Behaviour, Cause, Exit, ExitKind
from .log_patterns import match_log
from .rows import OLD_ROWS, OTHER_NEGATIVE, OTHER_POSITIVE, ROWS, SIGNAL_CODES, Row
from .texts import CAUSE_HINTS, CAUSE_WORDS, TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitSpec:
    code: int  # what OpenPAI's clients see as exit code
    phrase: str
    issuer: str
    causer: str
    type: str
    stage: str
    behaviour: Behaviour
    reaction: str
    reason: str
    repro: tuple[str, ...]
    solution: tuple[str, ...]


_REACTIONS = {
    Behaviour.TRANSIENT: "ALWAYS_RETRY",
    Behaviour.TRANSIENT_CONFLICT: "ALWAYS_BACKOFF_RETRY",
    Behaviour.PERMANENT: "NEVER_RETRY",
    Behaviour.UNKNOWN: "RETRY_TO_MAX",
}

CAUSES: dict[Cause, int] = {
    Cause.IMAGE_MISSING: 254,
    Cause.NO_SHELL: -1203,
    Cause.INVALID_TASK: -200,
    Cause.NOT_ALLOWED: -1005,
    Cause.TOO_LARGE: -1100,
    Cause.START_FAILED: -120,
    Cause.SANDBOX_FAILED: -1006,
    Cause.PORT_IN_USE: 253,
    Cause.LOST: -1001,
    Cause.FILES_GONE: -101,
    Cause.SCRATCH_FULL: 210,
    Cause.DISK_LIMIT: 210,
    Cause.SERVER_DISK_FULL: 210,
    Cause.DISK_WAS_FULL: 255,
    Cause.SSH_BARRIER: 249,
    Cause.PLUGIN_FAILED: 256,
    Cause.COMMAND_NOT_FOUND: 220,
    Cause.TENSORFLOW_OOM: 221,
    Cause.MPI_SEGFAULT: 222,
    Cause.GPU_MEMORY_ERROR: 223,
    Cause.CUDA_MISMATCH: 224,
    Cause.CUDNN_MISMATCH: 225,
    Cause.CUDA_OOM: 226,
    Cause.BAD_ARGUMENT: 228,
    Cause.BAD_DATA: 229,
    Cause.BAD_SAVE_PATH: 230,
    Cause.SYNTAX_ERROR: 231,
    Cause.IMPORT_ERROR: 232,
    Cause.INDEX_ERROR: 233,
    Cause.SEGFAULT: 234,
    Cause.CORE_DUMPED: 235,
    Cause.UNSET_VARIABLE: 255,
}
_CODES: dict[str, int] = {cause.value: code for cause, code in CAUSES.items()}

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


def _spec(row: Row) -> ExitSpec:
    reaction = _REACTIONS[row.behaviour] if row.code != 0 else "NEVER_RETRY"
    return ExitSpec(**row._asdict(), reaction=reaction, **TEXTS[row.code]._asdict())


_SPECS = {row.code: _spec(row) for row in ROWS + OLD_ROWS}


def spec_of(exit: Exit) -> ExitSpec:
    if exit.kind in _TOLD_BY_CAUSE and exit.cause in _CODES:
        return _SPECS[_CODES[exit.cause]]
    if exit.kind is ExitKind.USER_ERROR and exit.code in SIGNAL_CODES:
        return _SPECS[exit.code]
    return _SPECS[_KINDS[exit.kind]]


def spec_for(code: int) -> ExitSpec:
    """A code without a row gets the row for such codes, and stays what it is."""
    known = _SPECS.get(code)
    if known is not None:
        return known
    return replace(_SPECS[OTHER_NEGATIVE if code < 0 else OTHER_POSITIVE], code=code)


def find_cause(tail: str, code: int) -> str:
    """What the end of a failed task's log tells; empty when nothing. A signal says enough by itself."""
    if not may_have_cause(code):
        return ""
    return str(match_log(tail, code) or "")


def may_have_cause(code: int) -> bool:
    """Whether looking at the log of a task that ended with `code` can tell more."""
    return code != 0 and code not in SIGNAL_CODES


def with_cause(exit: Exit, cause: str) -> Exit:
    """A failure whose log told the cause, which its message then says as well."""
    words = CAUSE_WORDS.get(cause)
    return replace(exit, cause=cause, message=join_messages(": ", (exit.message, words)) if words else exit.message)


def hint_for(exit: Exit) -> str:
    """What to try after a failure whose cause is known, or that another try would not mend; empty when there is nothing
    of use to say."""
    if exit.kind not in _OURS_TO_EXPLAIN:
        return ""
    spec = spec_of(exit)
    told = exit.kind is ExitKind.USER_ERROR and exit.cause in CAUSE_WORDS and spec.behaviour is Behaviour.UNKNOWN
    if spec.behaviour is Behaviour.PERMANENT or told:
        return CAUSE_HINTS.get(exit.cause) or join_messages(" ", spec.solution)
    return ""
