"""Diagnoses from the exit of a task alone: the kernel, the engine, an exit code or a signal."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.exits.exit import SIGNAL_NAMES, Cause, Exit, ExitKind
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault

from . import verdict_texts
from .case import TaskDiagnosisInput
from .suspects import Suspect
from .verdict_builder import VerdictBuilder, add_evidence
from .verdict_texts import VerdictText

MEMORY_AT_LIMIT_SHARE = 0.95  # share of the limit above which a SIGKILL is probably an out-of-memory kill
_KILL, _TERM, _SEGV, _ABRT, _INT, _HUP, _BUS = 9, 15, 11, 6, 2, 1, 7
_TIMEOUT_CODE = 124  # exit code of `timeout`
# Faults in the log that explain a signal better than the signal itself.
_MEMORY_FAULTS = frozenset({Fault.OUT_OF_MEMORY, Fault.SHARED_MEMORY, Fault.GPU_OUT_OF_MEMORY})
_CRASH_FAULTS = _MEMORY_FAULTS | {
    Fault.SEGFAULT, Fault.ABORTED, Fault.CRASHED, Fault.GPU_ERROR, Fault.GPU_DRIVER, Fault.GPU_HARDWARE,
    Fault.GPU_MISSING, Fault.MISSING_LIBRARY, Fault.WRONG_ARCHITECTURE, Fault.PROCESSES, Fault.DISK_FULL,
}  # fmt: skip
_IMAGE_CAUSES = frozenset({Cause.IMAGE_MISSING.value, Cause.NO_SHELL.value})
_REFUSED, _PLATFORM = ExitKind.REFUSED, ExitKind.PLATFORM
# Exits that the engine explains; the first that applies counts.
_EXIT_RULES: tuple[tuple[Callable[[Exit], bool], Fault, VerdictText, str], ...] = (
    (lambda exit: exit.cause == Cause.SCRATCH_FULL, Fault.HOME_FULL, verdict_texts.HOME_FULL, "home-full"),
    (lambda exit: exit.cause == Cause.DISK_LIMIT, Fault.DISK_LIMIT, verdict_texts.DISK_LIMIT, "disk-limit"),
    (
        lambda exit: exit.cause == Cause.SERVER_DISK_FULL,
        Fault.DISK_FULL, verdict_texts.SERVER_DISK_FULL, "server-disk-full",
    ),
    (
        lambda exit: exit.kind is _REFUSED and exit.cause in _IMAGE_CAUSES,
        Fault.BAD_IMAGE, verdict_texts.BAD_IMAGE, "refused-image",
    ),
    (
        lambda exit: exit.kind is _REFUSED and "cannot be mounted" in exit.message,
        Fault.MISSING_DATASET, verdict_texts.NOT_MOUNTED, "refused-mount",
    ),
    (lambda exit: exit.kind is _REFUSED, Fault.IMPOSSIBLE, verdict_texts.REJECTED, "refused"),
    (
        lambda exit: exit.kind is _PLATFORM and exit.cause == Cause.PORT_IN_USE,
        Fault.PORT_IN_USE, verdict_texts.PORT_IN_USE, "port-taken",
    ),
    (lambda exit: exit.kind is _PLATFORM, Fault.PLATFORM, verdict_texts.PLATFORM_FAILURE, "platform"),
)  # fmt: skip


def diagnose_exit(wording: VerdictBuilder) -> Diagnosis | None:
    """Return the diagnosis that the kernel or the engine gives, if any; the log cannot add to it."""
    exit = wording.task.exit if wording.task else wording.case.exit
    if exit is None:
        return None
    if exit.kind is ExitKind.OUT_OF_MEMORY:
        found = wording.build_diagnosis(
            Fault.OUT_OF_MEMORY, verdict_texts.OUT_OF_MEMORY, Confidence.CERTAIN, rule="memory-limit"
        )
        return add_evidence(found, wording.build_kernel_evidence(), wording.build_memory_evidence())
    if exit.kind is ExitKind.TIME_LIMIT:
        return wording.build_diagnosis(
            Fault.TIME_LIMIT, verdict_texts.TIME_LIMIT, Confidence.CERTAIN, rule="time-limit"
        )
    matching = next((each for each in _EXIT_RULES if each[0](exit)), None)
    if matching is None:
        return None
    _, fault, text, rule = matching
    event = Evidence(kind=EvidenceKind.EVENT, text=exit.message, task=wording.task.task if wording.task else None)
    values = {"message": exit.message.removeprefix("System Error: ").removesuffix(".")}
    return wording.build_diagnosis(fault, text, Confidence.CERTAIN, values, rule=rule, evidence=[event])


def can_explain_exit(task: TaskDiagnosisInput, suspect: Suspect) -> bool:
    """Whether the suspect from the log can explain the signal that ended the task."""
    signal = task.exit.signal
    if signal is None or (suspect.rule is not None and suspect.rule.codes):
        return True
    if signal == _KILL:
        return suspect.fault in _MEMORY_FAULTS and suspect.healthy_line_count <= 5
    if signal in (_TERM, _INT, _HUP):
        return suspect.healthy_line_count <= 2 and not suspect.is_secondary
    if signal == _SEGV:
        return suspect.fault in _MEMORY_FAULTS | {Fault.SEGFAULT}
    return suspect.fault in _CRASH_FAULTS or (signal == _ABRT and suspect.healthy_line_count <= 5)


def diagnose_signal(wording: VerdictBuilder, said_killed: bool) -> Diagnosis | None:
    """Return a diagnosis from the signal alone. `said_killed`: a shell reported that a process was killed."""
    assert wording.task is not None
    signal, build = wording.task.exit.signal, wording.build_diagnosis
    if signal == _KILL:
        return _diagnose_sigkill(wording, said_killed)
    known = {
        _SEGV: (Fault.SEGFAULT, verdict_texts.SEGFAULT, Confidence.CERTAIN, "sigsegv"),
        _ABRT: (Fault.ABORTED, verdict_texts.ABORTED, Confidence.CERTAIN, "sigabrt"),
        _TERM: (Fault.KILLED, verdict_texts.TERMINATED, Confidence.LIKELY, "sigterm"),
        _INT: (Fault.KILLED, verdict_texts.INTERRUPTED, Confidence.LIKELY, "sigint"),
        _HUP: (Fault.KILLED, verdict_texts.INTERRUPTED, Confidence.LIKELY, "sighup"),
    }
    if signal in known:
        fault, text, confidence, rule = known[signal]
        return build(fault, text, confidence, rule=rule)
    if signal in verdict_texts.CRASHES_BY_SIGNAL:
        return build(
            Fault.CRASHED, verdict_texts.CRASHES_BY_SIGNAL[signal], Confidence.CERTAIN, rule=f"signal-{signal}"
        )
    if signal in SIGNAL_NAMES:
        return build(Fault.CRASHED, verdict_texts.OTHER_SIGNAL, Confidence.LIKELY, rule="other-signal")
    return None


def diagnose_exit_code(wording: VerdictBuilder) -> Diagnosis | None:
    """Return a possible diagnosis from the exit code alone, for a log without errors."""
    assert wording.task is not None
    code, commands = wording.task.exit.code, "\n".join(wording.task.role.commands)
    if wording.task.exit.cause == Cause.DISK_WAS_FULL:
        return wording.build_diagnosis(
            Fault.DISK_FULL, verdict_texts.DISK_WAS_FULL, Confidence.LIKELY, rule="disk-was-full"
        )
    if code == _TIMEOUT_CODE:
        confidence = Confidence.LIKELY if "timeout" in commands else Confidence.POSSIBLE
        return wording.build_diagnosis(Fault.TIME_LIMIT, verdict_texts.OWN_TIMEOUT, confidence, rule="own-timeout")
    if code == 127:
        return wording.build_diagnosis(
            Fault.COMMAND_NOT_FOUND, verdict_texts.EXIT_127, Confidence.POSSIBLE, rule="code-127"
        )
    if code == 126:
        return wording.build_diagnosis(
            Fault.NOT_EXECUTABLE, verdict_texts.EXIT_126, Confidence.POSSIBLE, rule="code-126"
        )
    return None


def _diagnose_sigkill(wording: VerdictBuilder, said_killed: bool) -> Diagnosis:
    task = wording.task
    assert task is not None
    near = (
        task.memory_peak is not None
        and task.memory_limit
        and task.memory_peak >= MEMORY_AT_LIMIT_SHARE * task.memory_limit
    )
    if near:
        found = wording.build_diagnosis(
            Fault.OUT_OF_MEMORY, verdict_texts.LIKELY_OUT_OF_MEMORY, Confidence.LIKELY, rule="sigkill-at-limit"
        )
        return add_evidence(found, wording.build_memory_evidence())
    words = verdict_texts.KILLED if said_killed else verdict_texts.EXIT_137
    confidence = Confidence.LIKELY if said_killed else Confidence.POSSIBLE
    return add_evidence(
        wording.build_diagnosis(Fault.KILLED, words, confidence, rule="sigkill"), wording.build_memory_evidence()
    )
