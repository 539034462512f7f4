"""Verdict on a failed job, from the exits of its tasks, their logs and the order of their failures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.core.exits.exit import ExitKind
from holdfast.core.messages import join_messages
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault

from . import verdict_texts
from .case import JobDiagnosisInput, TaskDiagnosisInput
from .exit_diagnosis import can_explain_exit, diagnose_exit, diagnose_exit_code, diagnose_signal
from .line_prefixes import strip_log_prefix
from .log_text import LogText
from .suspects import MAX_HEALTHY_FOR_CERTAIN, MIN_EXPLANATORY_PRIORITY, MIN_NORMAL_PRIORITY, Suspect, find_suspect
from .templates import find_unfilled_template
from .tracebacks import has_interrupted_traceback
from .verdict_builder import VerdictBuilder, add_evidence, fill_message_template
from .verdict_texts import VerdictText

MAX_LAST_LINES = 6  # shown if no rule matches
MAX_EVIDENCE_LINES = 6  # of the log, as evidence
MAX_CONTEXT_LINES = 4  # lines shown after an error
MAX_LINE_LENGTH = 400  # characters
MAX_FOLLOWERS = 50  # tasks that are listed
_NON_FAILURE_KINDS = (ExitKind.SUCCEEDED, ExitKind.CANCELLED, ExitKind.ATTEMPT_OVER)
# Faults that the failure of another task often causes.
_SECONDARY_FAULTS = frozenset({Fault.CONNECTION, Fault.UNKNOWN, Fault.COLLECTIVE, Fault.KILLED})
_SCRIPT_LINE_PATTERN = re.compile(r"/run/holdfast/script: (?:line )?([0-9]{1,6}): ")
_ERROR_LEVEL_PATTERN = re.compile(r"\b(?:error|critical|fatal)\b", re.IGNORECASE)
_NUMBER_PATTERN = re.compile(r"[0-9]+")
_WEAKER_CONFIDENCE = {Confidence.CERTAIN: Confidence.LIKELY, Confidence.LIKELY: Confidence.POSSIBLE}


class _SecondaryLikelihood(Enum):
    """Whether the failure of one task may be caused by another."""

    NONE = 0
    POSSIBLE = 1  # a failed connection, or an unknown error
    CERTAIN = 2  # it reports that others failed


@dataclass(frozen=True, slots=True)
class TaskDiagnosis:
    """Diagnosis of one task alone."""

    task: TaskDiagnosisInput
    diagnosis: Diagnosis
    is_secondary: bool  # it reports that others failed
    is_weak: bool = False  # based on a line that only looks like an error

    @property
    def secondary_likelihood(self) -> _SecondaryLikelihood:
        if self.is_secondary:
            return _SecondaryLikelihood.CERTAIN
        return (
            _SecondaryLikelihood.POSSIBLE
            if self.is_weak or self.diagnosis.fault in _SECONDARY_FAULTS
            else _SecondaryLikelihood.NONE
        )


def diagnose_job(case: JobDiagnosisInput) -> Diagnosis | None:
    """Return the verdict on a job; None if nothing failed."""
    failed = [task for task in case.tasks if not task.stopped and task.exit.kind not in _NON_FAILURE_KINDS]
    if not failed:
        return _diagnose_without_tasks(case)
    opinions = [_diagnose_task(case, task) for task in failed if task.log or task is failed[0]]
    return _add_other_tasks(_find_primary_failure(case, opinions), opinions, case)


def _diagnose_without_tasks(case: JobDiagnosisInput) -> Diagnosis | None:
    if case.exit is None or case.exit.kind in _NON_FAILURE_KINDS:
        return None
    wording = VerdictBuilder(case, None)
    found = diagnose_exit(wording)
    if found is None:
        found = wording.build_diagnosis(Fault.UNKNOWN, verdict_texts.NO_LOG, Confidence.POSSIBLE)
    return found if found.evidence else add_evidence(found, wording.build_exit_evidence())


def _find_primary_failure(case: JobDiagnosisInput, opinions: Sequence[TaskDiagnosis]) -> TaskDiagnosis:
    """Return the first task that certainly failed by itself. Otherwise a stopped task may have the cause: it can have
    failed without having exited."""
    sure = [opinion for opinion in opinions if opinion.secondary_likelihood is _SecondaryLikelihood.NONE]
    if sure:
        return sure[0]
    for task in case.tasks:
        stopped = (
            _diagnose_log(case, task, LogText.from_excerpts(task.log, case.time_up))
            if task.stopped and task.log
            else None
        )
        if (
            stopped is not None
            and stopped.secondary_likelihood is _SecondaryLikelihood.NONE
            and stopped.diagnosis.confidence is not Confidence.POSSIBLE
        ):
            return stopped
    return next(
        (opinion for opinion in opinions if opinion.secondary_likelihood is _SecondaryLikelihood.POSSIBLE), opinions[0]
    )


def _add_other_tasks(cause: TaskDiagnosis, opinions: Sequence[TaskDiagnosis], case: JobDiagnosisInput) -> Diagnosis:
    """Add the secondary failures, and the tasks that failed in the same way."""
    diagnosis = cause.diagnosis
    others = [opinion for opinion in opinions if opinion.task is not cause.task]
    same = [each for each in others if _is_same_failure(each.diagnosis, diagnosis) and not each.is_secondary]
    followers = [
        each.task.task
        for each in others
        if each.secondary_likelihood.value > cause.secondary_likelihood.value and each not in same
    ]
    sentences = [diagnosis.explanation]
    if same:
        unread = max(case.failed - len(opinions), 0) if len(same) + len(followers) == len(others) else 0
        sentences.append(_fill_count(len(same) + unread, verdict_texts.ONE_SAME_FAILURE, verdict_texts.SAME_FAILURES))
    if followers:
        sentences.append(
            _fill_count(len(followers), verdict_texts.ONE_SECONDARY_FAILURE, verdict_texts.SECONDARY_FAILURES)
        )
    return replace(
        diagnosis, explanation=join_messages(" ", filter(None, sentences)), followers=tuple(followers[:MAX_FOLLOWERS])
    )


def _is_same_failure(one: Diagnosis, other: Diagnosis) -> bool:
    """Compare faults and titles, ignoring numbers such as ranks and ports."""
    return one.fault is other.fault and _NUMBER_PATTERN.sub("0", one.title) == _NUMBER_PATTERN.sub("0", other.title)


def _fill_count(count: int, one: str, many: str) -> str:
    return one if count == 1 else fill_message_template(many, {"count": str(count)})


def _diagnose_task(case: JobDiagnosisInput, task: TaskDiagnosisInput) -> TaskDiagnosis:
    wording = VerdictBuilder(case, task)
    found = diagnose_exit(wording)
    if found is not None:
        text = LogText.from_excerpts(task.log, case.time_up)
        shown = (
            _build_last_lines_evidence(text, task) if not found.evidence or found.fault is Fault.TIME_LIMIT else None
        )
        return TaskDiagnosis(task, add_evidence(found, wording.build_exit_evidence(), shown), is_secondary=False)
    text = LogText.from_excerpts(task.log, case.time_up)
    diagnosis = _diagnose_log(case, task, text)
    if diagnosis is None or diagnosis.is_weak or diagnosis.is_secondary:
        diagnosis = _diagnose_stderr(case, task, text) or diagnosis
    elif task.errors and has_interrupted_traceback(text):
        diagnosis = _diagnose_stderr(case, task, text, raised=True) or diagnosis
    if diagnosis is not None:
        return diagnosis
    found = diagnose_signal(wording, b"killed" in text.lower[-4000:]) or diagnose_exit_code(wording)
    follower = found is not None and found.rule == "sigterm"
    found = found or _build_unknown_diagnosis(wording, text, task)
    shown = _build_last_lines_evidence(text, task) if len(text.data.strip()) else None
    return TaskDiagnosis(task, add_evidence(found, wording.build_exit_evidence(), shown), follower)


def _diagnose_stderr(
    case: JobDiagnosisInput, task: TaskDiagnosisInput, log: LogText, *, raised: bool = False
) -> TaskDiagnosis | None:
    """Diagnose from the end of stderr, if other output has displaced or interrupted it in the log. `raised`: only
    exceptions count."""
    if not task.errors:
        return None
    text = LogText.from_excerpts(task.errors, case.time_up)
    suspect = find_suspect(text, task.exit.code)
    if (
        suspect is None
        or suspect.is_secondary
        or (suspect.trace is None and (raised or suspect.priority < MIN_EXPLANATORY_PRIORITY))
    ):
        return None
    found = _diagnose_log(case, task, text, suspect)
    if found is None:
        return None
    diagnosis = found.diagnosis
    line = text.get_line(suspect.lines[0]).rstrip().encode()
    place = log.data.rfind(line) if line else -1
    if place >= 0:
        offset = log.get_offset(log.find_line_number(place))
        evidence = (replace(each, offset=offset if each.offset is not None else None) for each in diagnosis.evidence)
        return replace(found, diagnosis=replace(diagnosis, evidence=tuple(evidence)))
    return replace(
        found,
        diagnosis=replace(
            diagnosis,
            confidence=_WEAKER_CONFIDENCE.get(diagnosis.confidence, diagnosis.confidence),
            evidence=tuple(replace(each, offset=None) for each in diagnosis.evidence),  # it was in another stream
        ),
    )


def _diagnose_log(
    case: JobDiagnosisInput, task: TaskDiagnosisInput, text: LogText, suspect: Suspect | None = None
) -> TaskDiagnosis | None:
    suspect = suspect or find_suspect(text, task.exit.code)
    if suspect is None or (not task.stopped and not can_explain_exit(task, suspect)):
        return None
    if suspect.fault is Fault.UNKNOWN and suspect.frame is not None:
        suspect = replace(suspect, rule=None)  # no rule gives a reason: report the exception in the user's own code
    wording = VerdictBuilder(case, task)
    confidence = suspect.rule.confidence if suspect.rule else Confidence.CERTAIN
    if suspect.healthy_line_count > MAX_HEALTHY_FOR_CERTAIN:
        confidence = _WEAKER_CONFIDENCE.get(confidence, confidence)
    if text.unfinished and confidence is Confidence.CERTAIN:
        confidence = Confidence.LIKELY
    values = _collect_values(suspect, text)
    template = find_unfilled_template(task.role, suspect.fault, values)
    found = wording.build_diagnosis(
        Fault.UNRESOLVED_TEMPLATE if template else suspect.fault,
        verdict_texts.UNFILLED_TEMPLATE if template else _choose_text(suspect),
        confidence,
        {**values, "template": template},
        rule=suspect.rule.id if suspect.rule else "python-exception",
        evidence=[_build_suspect_evidence(text, task, suspect)],
    )
    memory = wording.build_memory_evidence() if suspect.fault is Fault.OUT_OF_MEMORY else None
    found = _add_command_line(_add_frame(found, suspect), case, task, values["error"])
    found = add_evidence(found, wording.build_exit_evidence(), memory)
    return TaskDiagnosis(task, found, suspect.is_secondary, is_weak=suspect.priority < MIN_NORMAL_PRIORITY)


def _choose_text(suspect: Suspect) -> VerdictText:
    if suspect.rule is not None:
        return VerdictText(suspect.rule.title, suspect.rule.explanation, suspect.rule.remedies)
    return verdict_texts.EARLIER_EXCEPTION if suspect.healthy_line_count else verdict_texts.EXCEPTION


def _collect_values(suspect: Suspect, text: LogText) -> dict[str, str]:
    """Return the values of the placeholders in its texts. `error` is the line itself."""
    trace = suspect.trace
    if trace is None:
        lines = [text.get_line(number) for number in range(suspect.start, min(suspect.start + 3, len(text)))]
        return {"error": _extract_message(lines), **suspect.parts}
    message = _extract_message(trace.message.split("\n"))
    error = f"{trace.name}: {message}" if message else trace.name
    return {"error": error, "exception": trace.name, "message": message, **suspect.parts}


def _extract_message(lines: Sequence[str]) -> str:
    """Return the first line, and the next one if the first ends with a colon."""
    stripped = [strip_log_prefix(line.strip()) for line in lines if line.strip()]
    return " ".join(stripped[:2] if stripped and stripped[0].endswith(":") else stripped[:1])


def _add_frame(diagnosis: Diagnosis, suspect: Suspect) -> Diagnosis:
    sentences = [diagnosis.explanation]
    trace = suspect.trace
    before = trace.cause if suspect.rule is None and trace is not None and trace.deliberate else None
    if before is not None:
        sentences.append(
            fill_message_template(
                verdict_texts.CAUSED_BY, {"exception": before.name, "message": before.message.split("\n")[0]}
            )
        )
    frame = suspect.frame
    if frame is not None:
        function = frame.function if frame.function not in ("", "<module>") else ""
        template = verdict_texts.EXCEPTION_IN if function else verdict_texts.EXCEPTION_AT
        sentences.append(
            fill_message_template(template, {"file": frame.file, "line": str(frame.line), "function": function})
        )
    return replace(diagnosis, frame=frame, explanation=join_messages(" ", filter(None, sentences)))


def _add_command_line(diagnosis: Diagnosis, case: JobDiagnosisInput, task: TaskDiagnosisInput, error: str) -> Diagnosis:
    """Add the line of the job's commands that the shell names. OpenPAI and PrimeHub jobs run other commands, too."""
    found = None if case.job.dialect.emulates_platform else _SCRIPT_LINE_PATTERN.search(error)
    lines = "\n".join(task.role.commands).split("\n")
    number = int(found[1]) if found else 0
    own = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    if not own:
        return diagnosis
    line = fill_message_template(verdict_texts.COMMAND_LINE_NUMBER, {"line": str(number), "text": own})
    return replace(diagnosis, explanation=join_messages(" ", (diagnosis.explanation, line)))


def _build_suspect_evidence(text: LogText, task: TaskDiagnosisInput, suspect: Suspect) -> Evidence:
    """Return the lines of the error, and some lines after it for context."""
    first, last = suspect.lines
    lines = list(range(first, min(last, first + MAX_EVIDENCE_LINES - 1) + 1))
    if suspect.trace is None:
        after = range(last + 1, min(last + 3 * MAX_CONTEXT_LINES, len(text)))
        lines += [number for number in after if not text.is_blank(number)][:MAX_CONTEXT_LINES]
    return _build_lines_evidence(text, task, lines)


def _build_last_lines_evidence(text: LogText, task: TaskDiagnosisInput) -> Evidence | None:
    lines = text.list_last_line_numbers(MAX_LAST_LINES)
    return _build_lines_evidence(text, task, lines) if lines else None


def _build_lines_evidence(text: LogText, task: TaskDiagnosisInput, lines: Sequence[int]) -> Evidence:
    shown = "\n".join(text.get_line(number).rstrip()[:MAX_LINE_LENGTH] for number in lines)
    return Evidence(kind=EvidenceKind.LOG, text=shown, task=task.task, offset=text.get_offset(lines[0]))


def _build_unknown_diagnosis(wording: VerdictBuilder, text: LogText, task: TaskDiagnosisInput) -> Diagnosis:
    if not task.log:
        return wording.build_diagnosis(Fault.UNKNOWN, verdict_texts.NO_LOG, Confidence.POSSIBLE)
    error = _find_last_error(text)
    if error:
        return wording.build_diagnosis(Fault.UNKNOWN, verdict_texts.LAST_ERROR, Confidence.POSSIBLE, {"error": error})
    words = verdict_texts.UNKNOWN_ERROR if text.data.strip() else verdict_texts.NO_OUTPUT
    return wording.build_diagnosis(Fault.UNKNOWN, words, Confidence.POSSIBLE)


def _find_last_error(text: LogText) -> str:
    """Return the last line, if a logger wrote it as an error."""
    lines = text.list_last_line_numbers(1)
    line = text.get_line(lines[0]).strip() if lines else ""
    stripped = strip_log_prefix(line)
    return stripped if _ERROR_LEVEL_PATTERN.search(line[: len(line) - len(stripped)]) else ""
