"""What the end of a task tells by itself: the kernel, the engine, an exit code or a signal."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.exits.exit import SIGNAL_NAMES, Cause, ExitKind
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault

from . import phrases
from .case import TaskCase
from .suspects import Suspect
from .wording import Wording, with_evidence

AT_LIMIT = 0.95  # of the limit: so much in use, and a SIGKILL was most likely for that
_KILL, _TERM, _SEGV, _ABRT, _INT, _HUP, _BUS = 9, 15, 11, 6, 2, 1, 7
_TIMED_OUT = 124  # what `timeout` ends with
# What the log may tell of a program that died by a signal: more than the signal does.
_MEMORY = frozenset({Fault.OUT_OF_MEMORY, Fault.SHARED_MEMORY, Fault.GPU_OUT_OF_MEMORY})
_OF_CRASH = _MEMORY | {
    Fault.SEGFAULT, Fault.ABORTED, Fault.CRASHED, Fault.GPU_ERROR, Fault.GPU_DRIVER, Fault.GPU_HARDWARE,
    Fault.GPU_MISSING, Fault.MISSING_LIBRARY, Fault.WRONG_ARCHITECTURE, Fault.PROCESSES, Fault.DISK_FULL,
}  # fmt: skip
_REFUSED_IMAGE = frozenset({Cause.IMAGE_MISSING.value, Cause.NO_SHELL.value})


def decided(wording: Wording) -> Diagnosis | None:
    """Where nothing in a log can say more: the kernel or the engine knows why it ended."""
    exit = wording.task.exit if wording.task else wording.case.exit
    if exit is None:
        return None
    if exit.kind is ExitKind.OUT_OF_MEMORY:
        found = wording.diagnosis(Fault.OUT_OF_MEMORY, phrases.OUT_OF_MEMORY, Confidence.CERTAIN, rule="memory-limit")
        return with_evidence(found, wording.kernel_evidence(), wording.memory_evidence())
    if exit.kind is ExitKind.TIME_LIMIT:
        return wording.diagnosis(Fault.TIME_LIMIT, phrases.TIME_LIMIT, Confidence.CERTAIN, rule="time-limit")
    if exit.cause == Cause.SCRATCH_FULL:
        return _told(wording, Fault.HOME_FULL, phrases.HOME_FULL, exit.message, "home-full")
    if exit.cause == Cause.DISK_LIMIT:
        return _told(wording, Fault.DISK_LIMIT, phrases.DISK_LIMIT, exit.message, "disk-limit")
    if exit.cause == Cause.SERVER_DISK_FULL:
        return _told(wording, Fault.DISK_FULL, phrases.SERVER_DISK_FULL, exit.message, "server-disk-full")
    if exit.kind is ExitKind.REFUSED and exit.cause in _REFUSED_IMAGE:
        return _told(wording, Fault.BAD_IMAGE, phrases.BAD_IMAGE, exit.message, "refused-image")
    if exit.kind is ExitKind.REFUSED and "cannot be mounted" in exit.message:
        return _told(wording, Fault.MISSING_DATASET, phrases.NOT_MOUNTED, exit.message, "refused-mount")
    if exit.kind is ExitKind.REFUSED:
        return _told(wording, Fault.IMPOSSIBLE, phrases.IMPOSSIBLE, exit.message, "refused")
    if exit.kind is ExitKind.PLATFORM and exit.cause == Cause.PORT_IN_USE:
        return _told(wording, Fault.PORT_IN_USE, phrases.PORT_TAKEN, exit.message, "port-taken")
    if exit.kind is ExitKind.PLATFORM:
        return _told(wording, Fault.PLATFORM, phrases.PLATFORM, exit.message, "platform")
    return None


def _told(wording: Wording, fault: Fault, words: phrases.Words, message: str, rule: str) -> Diagnosis:
    task = wording.task.task if wording.task else None
    told = Evidence(kind=EvidenceKind.EVENT, text=message, task=task)
    said = {"message": message.removeprefix("System Error: ").removesuffix(".")}
    return wording.diagnosis(fault, words, Confidence.CERTAIN, said, rule=rule, evidence=[told])


def may_tell(task: TaskCase, suspect: Suspect) -> bool:
    """Whether what the log tells goes with the signal that ended it."""
    signal = task.exit.signal
    if signal is None or (suspect.rule is not None and suspect.rule.codes):
        return True
    if signal == _KILL:
        return suspect.fault in _MEMORY and suspect.healthy <= 5
    if signal in (_TERM, _INT, _HUP):
        return suspect.healthy <= 2 and not suspect.follower
    if signal == _SEGV:
        return suspect.fault in _MEMORY | {Fault.SEGFAULT}
    return suspect.fault in _OF_CRASH or (signal == _ABRT and suspect.healthy <= 5)


def by_signal(wording: Wording, said_killed: bool) -> Diagnosis | None:
    """What a signal, or an exit code that shells give a meaning, tells without the log. `said_killed`: a shell told of
    a process that was killed."""
    assert wording.task is not None
    exit, say = wording.task.exit, wording.diagnosis
    if exit.signal == _KILL:
        return _killed(wording, said_killed)
    told: dict[int, Callable[[], Diagnosis]] = {
        _SEGV: lambda: say(Fault.SEGFAULT, phrases.SEGFAULT, Confidence.CERTAIN, rule="sigsegv"),
        _ABRT: lambda: say(Fault.ABORTED, phrases.ABORTED, Confidence.CERTAIN, rule="sigabrt"),
        _TERM: lambda: say(Fault.KILLED, phrases.TERMINATED, Confidence.LIKELY, rule="sigterm"),
        _INT: lambda: say(Fault.KILLED, phrases.INTERRUPTED, Confidence.LIKELY, rule="sigint"),
        _HUP: lambda: say(Fault.KILLED, phrases.INTERRUPTED, Confidence.LIKELY, rule="sighup"),
    }
    if exit.signal in told:
        return told[exit.signal]()
    if exit.signal in phrases.CRASHED:
        return say(Fault.CRASHED, phrases.CRASHED[exit.signal], Confidence.CERTAIN, rule=f"signal-{exit.signal}")
    if exit.signal in SIGNAL_NAMES:
        return say(Fault.CRASHED, phrases.OTHER_SIGNAL, Confidence.LIKELY, rule="other-signal")
    return None


def by_code(wording: Wording) -> Diagnosis | None:
    """What the exit code alone makes possible, where the log tells nothing."""
    assert wording.task is not None
    code, commands = wording.task.exit.code, "\n".join(wording.task.role.commands)
    if wording.task.exit.cause == Cause.DISK_WAS_FULL:
        return wording.diagnosis(Fault.DISK_FULL, phrases.DISK_WAS_FULL, Confidence.LIKELY, rule="disk-was-full")
    if code == _TIMED_OUT:
        confidence = Confidence.LIKELY if "timeout" in commands else Confidence.POSSIBLE
        return wording.diagnosis(Fault.TIME_LIMIT, phrases.OWN_TIMEOUT, confidence, rule="own-timeout")
    if code == 127:
        return wording.diagnosis(Fault.COMMAND_NOT_FOUND, phrases.CODE_127, Confidence.POSSIBLE, rule="code-127")
    if code == 126:
        return wording.diagnosis(Fault.NOT_EXECUTABLE, phrases.CODE_126, Confidence.POSSIBLE, rule="code-126")
    return None


def _killed(wording: Wording, said_killed: bool) -> Diagnosis:
    task = wording.task
    assert task is not None
    near = task.memory_peak is not None and task.memory_limit and task.memory_peak >= AT_LIMIT * task.memory_limit
    if near:
        found = wording.diagnosis(
            Fault.OUT_OF_MEMORY, phrases.LIKELY_OUT_OF_MEMORY, Confidence.LIKELY, rule="sigkill-at-limit"
        )
        return with_evidence(found, wording.memory_evidence())
    words = phrases.KILLED if said_killed else phrases.EXIT_137
    confidence = Confidence.LIKELY if said_killed else Confidence.POSSIBLE
    return with_evidence(wording.diagnosis(Fault.KILLED, words, confidence, rule="sigkill"), wording.memory_evidence())
