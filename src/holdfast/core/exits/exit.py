"""Exit of a task, from its exit code, its signal and the engine's observations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..messages import msg


class ExitKind(StrEnum):
    SUCCEEDED = "succeeded"
    USER_ERROR = "user-error"  # the program's own failure, with its own exit code
    OUT_OF_MEMORY = "out-of-memory"
    TIME_LIMIT = "time-limit"
    REFUSED = "refused"  # a system error before running: no node can run it
    PLATFORM = "platform"  # a platform failure; retried automatically, never counted
    CANCELLED = "cancelled"  # a user stopped it
    ATTEMPT_OVER = "attempt-over"  # stopped because other tasks completed the attempt


class RetryBehaviour(StrEnum):
    """Expected result of a retry."""

    TRANSIENT = "transient"  # always retried, not counted
    TRANSIENT_CONFLICT = "transient-conflict"  # always retried after a long random wait, not counted
    PERMANENT = "permanent"  # never retried
    UNKNOWN = "unknown"  # retried up to the job's own count


class Cause(StrEnum):
    """Cause of an exit, beyond its kind and code. `data/causes.toml` has OpenPAI's exit for each."""

    # refused
    IMAGE_MISSING = "image-missing"
    NO_SHELL = "no-shell"
    INVALID_TASK = "invalid-task"
    NOT_ALLOWED = "not-allowed"  # the node does not allow something it requests
    TOO_LARGE = "too-large"
    # platform failures
    START_FAILED = "start-failed"
    SANDBOX_FAILED = "sandbox-failed"
    PORT_IN_USE = "port-in-use"
    LOST = "lost"
    FILES_GONE = "files-gone"
    PREEMPTED = "preempted"  # the engine's system needed its resources for another job
    NODE_FAILED = "node-failed"
    # stopped by the engine
    SCRATCH_FULL = "scratch-full"  # its home folder exceeded the limit
    DISK_LIMIT = "disk-limit"  # it exceeded the limit of bytes or files of a task
    SERVER_DISK_FULL = "server-disk-full"  # the server's disk was nearly full, and it had written the most
    ENGINE_TIME_LIMIT = "engine-time-limit"  # a time limit of the engine's system
    # observed by the engine when it failed
    DISK_WAS_FULL = "disk-was-full"  # the server's disk: the program may have been unable to write
    # found in its log
    SSH_BARRIER = "ssh-barrier"
    PLUGIN_FAILED = "plugin-failed"
    COMMAND_NOT_FOUND = "command-not-found"
    TENSORFLOW_OOM = "tensorflow-oom"
    MPI_SEGFAULT = "mpi-segfault"
    GPU_MEMORY_ERROR = "gpu-memory-error"
    CUDA_MISMATCH = "cuda-mismatch"
    CUDNN_MISMATCH = "cudnn-mismatch"
    CUDA_OOM = "cuda-oom"
    BAD_ARGUMENT = "bad-argument"
    BAD_DATA = "bad-data"
    BAD_SAVE_PATH = "bad-save-path"
    SYNTAX_ERROR = "syntax-error"
    IMPORT_ERROR = "import-error"
    INDEX_ERROR = "index-error"
    SEGFAULT = "segfault"
    CORE_DUMPED = "core-dumped"
    UNSET_VARIABLE = "unset-variable"


DISK_STOP_CAUSES = frozenset({Cause.SCRATCH_FULL, Cause.DISK_LIMIT, Cause.SERVER_DISK_FULL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    kind: ExitKind
    message: str
    behaviour: RetryBehaviour = RetryBehaviour.UNKNOWN
    code: int | None = None  # the program's own exit code, 128+n after signal n
    signal: int | None = None
    cause: str = ""  # a value of Cause, or empty; a plain string, as stores keep it


SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
}  # fmt: skip

# A retry of the same program ends in the same way.
_PERMANENT_SIGNALS = frozenset({4, 7, 8, 13})


def classify_exit(code: int, *, oom: bool = False, memory_limit: str = "", scratch_full: str = "") -> Exit:
    """Return the exit of a program that ended by itself. `oom`: it was killed for exceeding its memory limit.
    `scratch_full`: the message if it was stopped for exceeding a disk limit; its code does not matter then."""
    if scratch_full:
        return Exit(
            kind=ExitKind.USER_ERROR,
            code=code,
            signal=_signal_from_code(code),
            behaviour=RetryBehaviour.PERMANENT,
            message=scratch_full,
        )
    if code == 0:
        return Exit(kind=ExitKind.SUCCEEDED, code=0, message="Succeeded")
    signal = _signal_from_code(code)
    if oom:
        limit = msg(" of {memory_limit}", memory_limit=memory_limit) if memory_limit else ""
        return Exit(
            kind=ExitKind.OUT_OF_MEMORY,
            code=code,
            signal=signal,
            behaviour=RetryBehaviour.PERMANENT,
            message=msg("Killed for exceeding its memory limit{limit}", limit=limit),
        )
    if signal is not None:
        name = SIGNAL_NAMES.get(signal, msg("signal {signal}", signal=signal))
        behaviour = RetryBehaviour.PERMANENT if signal in _PERMANENT_SIGNALS else RetryBehaviour.UNKNOWN
        return Exit(
            kind=ExitKind.USER_ERROR,
            code=code,
            signal=signal,
            behaviour=behaviour,
            message=msg("Exit code {code} (killed by {name})", code=code, name=name),
        )
    return Exit(kind=ExitKind.USER_ERROR, code=code, message=msg("Exit code {code}", code=code))


def build_time_limit_exit(message: str, code: int) -> Exit:
    """Return the exit of a task that its engine stopped at a time limit of its own."""
    return Exit(
        kind=ExitKind.TIME_LIMIT,
        message=message,
        behaviour=RetryBehaviour.PERMANENT,
        code=code,
        signal=_signal_from_code(code),
        cause=Cause.ENGINE_TIME_LIMIT.value,
    )


def _signal_from_code(code: int) -> int | None:
    return code - 128 if 128 < code < 128 + 65 else None


def build_platform_exit(message: str, cause: str = "") -> Exit:
    """Return the exit of a platform failure. It has no exit code: no program ended."""
    return Exit(kind=ExitKind.PLATFORM, message=message, behaviour=RetryBehaviour.TRANSIENT, cause=str(cause))


def build_refused_exit(message: str, cause: str = "") -> Exit:
    """Return the exit of a task that was rejected before it ran."""
    return Exit(kind=ExitKind.REFUSED, message=message, behaviour=RetryBehaviour.PERMANENT, cause=str(cause))
