"""One verdict on a job that failed: what the end of its tasks tells, what their logs tell, and which task was first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.core.exits.exit import ExitKind
from holdfast.core.job import Dialect
from holdfast.core.messages import join_messages
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault

from . import phrases
from .by_exit import by_code, by_signal, decided, may_tell
from .case import Case, TaskCase
from .log_text import LogText
from .phrases import Words
from .prefixes import without_prefix
from .suspects import NEAR_END, TELLING, WEAK, Suspect, find_suspect
from .templates import unfilled_template
from .tracebacks import has_torn
from .wording import Wording, fill, with_evidence

LAST_LINES = 6  # shown where nothing is known
MAX_LINES = 6  # of the log, as evidence
CONTEXT = 4  # lines after an error that may say more
MAX_LINE_LENGTH = 400  # characters
MAX_FOLLOWERS = 50  # that are named
_NOT_FAILED = (ExitKind.SUCCEEDED, ExitKind.CANCELLED, ExitKind.ATTEMPT_OVER)
# Faults of a task that those of another may have brought about.
_MAYBE_OTHERS = frozenset({Fault.CONNECTION, Fault.UNKNOWN, Fault.COLLECTIVE, Fault.KILLED})
_SCRIPT = re.compile(r"/run/holdfast/script: (?:line )?([0-9]{1,6}): ")
_LEVEL = re.compile(r"\b(?:error|critical|fatal)\b", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_WEAKER = {Confidence.CERTAIN: Confidence.LIKELY, Confidence.LIKELY: Confidence.POSSIBLE}


class _Doubt(Enum):
    """Whether what failed in one task may be the fault of another."""

    NONE = 0
    SOME = 1  # a connection that could not be made, or nothing that is known
    SURE = 2  # it tells that others failed


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one task alone makes believe."""

    task: TaskCase
    diagnosis: Diagnosis
    follower: bool  # it tells that others failed
    weak: bool = False  # it rests on a line that only looks like an error

    @property
    def doubt(self) -> _Doubt:
        if self.follower:
            return _Doubt.SURE
        return _Doubt.SOME if self.weak or self.diagnosis.fault in _MAYBE_OTHERS else _Doubt.NONE


def judge(case: Case) -> Diagnosis | None:
    """None where there is nothing that failed."""
    failed = [task for task in case.tasks if not task.stopped and task.exit.kind not in _NOT_FAILED]
    if not failed:
        return _without_tasks(case)
    opinions = [_opinion(case, task) for task in failed if task.log or task is failed[0]]
    return _with_others(_cause(case, opinions), opinions, case)


def _without_tasks(case: Case) -> Diagnosis | None:
    if case.exit is None or case.exit.kind in _NOT_FAILED:
        return None
    wording = Wording(case, None)
    found = decided(wording)
    if found is None:
        found = wording.diagnosis(Fault.UNKNOWN, phrases.NO_LOG, Confidence.POSSIBLE)
    return found if found.evidence else with_evidence(found, wording.exit_evidence())


def _cause(case: Case, opinions: Sequence[Opinion]) -> Opinion:
    """The first that surely failed by itself. Without one, a task that was stopped may have the cause: it had failed,
    and had not come to its end."""
    sure = [opinion for opinion in opinions if opinion.doubt is _Doubt.NONE]
    if sure:
        return sure[0]
    for task in case.tasks:
        stopped = _of_log(case, task, LogText.of(task.log, case.time_up)) if task.stopped and task.log else None
        if stopped is not None and stopped.doubt is _Doubt.NONE and _is_likely(stopped.diagnosis):
            return stopped
    return next((opinion for opinion in opinions if opinion.doubt is _Doubt.SOME), opinions[0])


def _is_likely(diagnosis: Diagnosis) -> bool:
    return diagnosis.confidence is not Confidence.POSSIBLE


def _with_others(cause: Opinion, opinions: Sequence[Opinion], case: Case) -> Diagnosis:
    """Those that failed because of it, and those that failed the same way."""
    diagnosis = cause.diagnosis
    others = [opinion for opinion in opinions if opinion.task is not cause.task]
    same = [each for each in others if _says_the_same(each.diagnosis, diagnosis) and not each.follower]
    followers = [each.task.task for each in others if each.doubt.value > cause.doubt.value and each not in same]
    said = [diagnosis.explanation]
    if same:
        unread = max(case.failed - len(opinions), 0) if len(same) + len(followers) == len(others) else 0
        said.append(_counted(len(same) + unread, phrases.ONE_SAME, phrases.SAME_ELSEWHERE))
    if followers:
        said.append(_counted(len(followers), phrases.ONE_FOLLOWED, phrases.FOLLOWED))
    return replace(
        diagnosis,
        explanation=join_messages(" ", filter(None, said)),
        followers=tuple(followers[:MAX_FOLLOWERS]),
    )


def _says_the_same(one: Diagnosis, other: Diagnosis) -> bool:
    """But for numbers, such as those of ranks and ports."""
    return one.fault is other.fault and _NUMBER.sub("0", one.title) == _NUMBER.sub("0", other.title)


def _counted(count: int, one: str, many: str) -> str:
    return one if count == 1 else fill(many, {"count": str(count)})


def _opinion(case: Case, task: TaskCase) -> Opinion:
    wording = Wording(case, task)
    found = decided(wording)
    if found is not None:
        text = LogText.of(task.log, case.time_up)
        shown = _last_lines(text, task) if not found.evidence or found.fault is Fault.TIME_LIMIT else None
        return Opinion(task, with_evidence(found, wording.exit_evidence(), shown), follower=False)
    text = LogText.of(task.log, case.time_up)
    told = _of_log(case, task, text)
    if told is None or told.weak or told.follower:
        told = _of_errors(case, task, text) or told
    elif task.errors and has_torn(text):
        told = _of_errors(case, task, text, raised=True) or told
    if told is not None:
        return told
    found = by_signal(wording, b"killed" in text.lower[-4000:]) or by_code(wording)
    follower = found is not None and found.rule == "sigterm"
    found = found or _unknown(wording, text, task)
    shown = _last_lines(text, task) if len(text.data.strip()) else None
    return Opinion(task, with_evidence(found, wording.exit_evidence(), shown), follower)


def _of_errors(case: Case, task: TaskCase, log: LogText, *, raised: bool = False) -> Opinion | None:
    """What stands at the end of its errors, where other output has pushed that out of what is read of its log, or has
    torn it apart there. `raised`: only an exception."""
    if not task.errors:
        return None
    text = LogText.of(task.errors, case.time_up)
    suspect = find_suspect(text, task.exit.code)
    if suspect is None or suspect.follower or (suspect.trace is None and (raised or suspect.priority < TELLING)):
        return None
    found = _of_log(case, task, text, suspect)
    if found is None:
        return None
    diagnosis = found.diagnosis
    line = text.line(suspect.lines[0]).rstrip().encode()
    place = log.data.rfind(line) if line else -1
    if place >= 0:
        offset = log.offset(log.number_at(place))
        evidence = (replace(each, offset=offset if each.offset is not None else None) for each in diagnosis.evidence)
        return replace(found, diagnosis=replace(diagnosis, evidence=tuple(evidence)))
    return replace(
        found,
        diagnosis=replace(
            diagnosis,
            confidence=_WEAKER.get(diagnosis.confidence, diagnosis.confidence),
            evidence=tuple(replace(each, offset=None) for each in diagnosis.evidence),  # it was in another stream
        ),
    )


def _of_log(case: Case, task: TaskCase, text: LogText, suspect: Suspect | None = None) -> Opinion | None:
    suspect = suspect or find_suspect(text, task.exit.code)
    if suspect is None or (not task.stopped and not may_tell(task, suspect)):
        return None
    if suspect.fault is Fault.UNKNOWN and suspect.frame is not None:
        suspect = replace(
            suspect, rule=None
        )  # nobody else said why: the exception in the user's own code is all there is
    wording = Wording(case, task)
    confidence = suspect.rule.confidence if suspect.rule else Confidence.CERTAIN
    if suspect.healthy > NEAR_END:
        confidence = _WEAKER.get(confidence, confidence)
    if text.unfinished and confidence is Confidence.CERTAIN:
        confidence = Confidence.LIKELY
    values = _values(suspect, text)
    template = unfilled_template(task.role, suspect.fault, values)
    found = wording.diagnosis(
        Fault.UNRESOLVED_TEMPLATE if template else suspect.fault,
        phrases.TEMPLATE if template else _words(suspect),
        confidence,
        {**values, "template": template},
        rule=suspect.rule.id if suspect.rule else "python-exception",
        evidence=[_shown(text, task, suspect)],
    )
    memory = wording.memory_evidence() if suspect.fault is Fault.OUT_OF_MEMORY else None
    found = _with_own_line(_with_frame(found, suspect), case, task, values["said"])
    found = with_evidence(found, wording.exit_evidence(), memory)
    return Opinion(task, found, suspect.follower, weak=suspect.priority < WEAK)


def _words(suspect: Suspect) -> Words:
    if suspect.rule is not None:
        return Words(suspect.rule.title, suspect.rule.explanation, suspect.rule.remedies)
    return phrases.RAISED_BEFORE if suspect.healthy else phrases.RAISED


def _values(suspect: Suspect, text: LogText) -> dict[str, str]:
    """What stands for the blanks of its texts. `said` is the line itself."""
    trace = suspect.trace
    if trace is None:
        lines = [text.line(number) for number in range(suspect.start, min(suspect.start + 3, len(text)))]
        return {"said": _said(lines), **suspect.parts}
    message = _said(trace.message.split("\n"))
    said = f"{trace.name}: {message}" if message else trace.name
    return {"said": said, "exception": trace.name, "message": message, **suspect.parts}


def _said(lines: Sequence[str]) -> str:
    """The first line; with the next one where it only leads to that."""
    said = [without_prefix(line.strip()) for line in lines if line.strip()]
    return " ".join(said[:2] if said and said[0].endswith(":") else said[:1])


def _with_frame(diagnosis: Diagnosis, suspect: Suspect) -> Diagnosis:
    said = [diagnosis.explanation]
    trace = suspect.trace
    before = trace.came_of if suspect.rule is None and trace is not None and trace.deliberate else None
    if before is not None:
        said.append(fill(phrases.CAME_OF, {"exception": before.name, "message": before.message.split("\n")[0]}))
    frame = suspect.frame
    if frame is not None:
        function = frame.function if frame.function not in ("", "<module>") else ""
        template = phrases.RAISED_IN if function else phrases.RAISED_AT
        said.append(fill(template, {"file": frame.file, "line": str(frame.line), "function": function}))
    return replace(diagnosis, frame=frame, explanation=join_messages(" ", filter(None, said)))


def _with_own_line(diagnosis: Diagnosis, case: Case, task: TaskCase, said: str) -> Diagnosis:
    """With the line of the job's own commands that the shell names, where these are all that it ran."""
    found = _SCRIPT.search(said) if case.job.dialect is Dialect.HOLDFAST else None
    lines = "\n".join(task.role.commands).split("\n")
    number = int(found[1]) if found else 0
    own = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    if not own:
        return diagnosis
    line = fill(phrases.OWN_LINE, {"line": str(number), "text": own})
    return replace(diagnosis, explanation=join_messages(" ", (diagnosis.explanation, line)))


def _shown(text: LogText, task: TaskCase, suspect: Suspect) -> Evidence:
    """The error, and some lines after it where they may say more."""
    first, last = suspect.lines
    lines = list(range(first, min(last, first + MAX_LINES - 1) + 1))
    if suspect.trace is None:
        after = range(last + 1, min(last + 3 * CONTEXT, len(text)))
        lines += [number for number in after if not text.blank(number)][:CONTEXT]
    return _quoted(text, task, lines)


def _last_lines(text: LogText, task: TaskCase) -> Evidence | None:
    lines = text.last_lines(LAST_LINES)
    return _quoted(text, task, lines) if lines else None


def _quoted(text: LogText, task: TaskCase, lines: Sequence[int]) -> Evidence:
    shown = "\n".join(text.line(number).rstrip()[:MAX_LINE_LENGTH] for number in lines)
    return Evidence(kind=EvidenceKind.LOG, text=shown, task=task.task, offset=text.offset(lines[0]))


def _unknown(wording: Wording, text: LogText, task: TaskCase) -> Diagnosis:
    if not task.log:
        return wording.diagnosis(Fault.UNKNOWN, phrases.NO_LOG, Confidence.POSSIBLE)
    said = _last_error(text)
    if said:
        return wording.diagnosis(Fault.UNKNOWN, phrases.LAST_ERROR, Confidence.POSSIBLE, {"said": said})
    words = phrases.UNKNOWN if text.data.strip() else phrases.SILENT
    return wording.diagnosis(Fault.UNKNOWN, words, Confidence.POSSIBLE)


def _last_error(text: LogText) -> str:
    """What the last line says, where a logger wrote it as an error."""
    lines = text.last_lines(1)
    line = text.line(lines[0]).strip() if lines else ""
    said = without_prefix(line)
    return said if _LEVEL.search(line[: len(line) - len(said)]) else ""
