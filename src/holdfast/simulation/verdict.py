"""From how the tasks went to what is to be said of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from holdfast.core.attempt import JobSnapshot, Result, TaskAttempt
from holdfast.core.exits.exit import ExitKind
from holdfast.core.job import Dialect, Job
from holdfast.core.states import TaskState
from holdfast.core.verdicts import Diagnosis, Fault
from holdfast.diagnosis.case import Case, TaskCase
from holdfast.diagnosis.judge import judge
from holdfast.engines.base import Launch
from holdfast.engines.embedded.sandbox.render import variable_name

from .heard import Mask
from .listening import is_chosen_by_kernel
from .playing import Played
from .report import About, Ending, Level, Remark, Remarks, TaskRun
from .rules import allows_failures

_LOOKS = 4  # at who listens where, before one that was not seen counts as one that did not
_MAX_EVIDENCE = 5  # lines
_GPU_FAULTS = (Fault.GPU_MISSING, Fault.GPU_DRIVER, Fault.GPU_OUT_OF_MEMORY)
_GPU_WORDS = re.compile(r"nvidia|cuda|\bgpu", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Missing:
    """What the real run has and this one has not: a failure for the lack of it says nothing."""

    job: Job  # as it is in the real run
    cut: Job  # as it was run
    folders: Collection[str]  # that are empty here

    def excuse(self, found: Diagnosis, role: str, text: str) -> str:
        """Why this failure may be none; empty: it is one."""
        folder = next((folder for folder in self.folders if folder in text), None)
        if folder is not None:
            return f"{folder} is empty in a simulation"
        real, here = self.job.role(role).resources, self.cut.role(role).resources
        if here.gpu < real.gpu and (found.fault in _GPU_FAULTS or _GPU_WORDS.search(text)):
            return "there are fewer GPUs here than it asks for"
        if here.memory < real.memory and found.fault is Fault.OUT_OF_MEMORY:
            return "there is less memory here than it asks for"
        return ""


def conclude(played: Played, launches: Mapping[str, Launch], missing: Missing, remarks: Remarks) -> None:
    for remark in _failures(played, missing):
        remarks.add(remark)
    _tell_rules(played, remarks)
    for attempt_id, launch in launches.items():
        _check_ports(played, attempt_id, launch, remarks)


# -- failures


def _failures(played: Played, missing: Missing) -> Iterator[Remark]:
    """One for each role: its tasks mostly fail for the same reason."""
    failed = _failed(played)
    cause = _cause(played)
    roles = dict.fromkeys(task.role for task in failed)
    first = _role_of(cause, roles)
    for role in dict.fromkeys((first, *roles)) if first else ():
        ours = [task for task in failed if task.role == role]
        found = cause if role == first else judge(_case(played, ours))
        if found is not None:
            alone = first is None or _allowed(played, first, failed)  # what may fail is no excuse for others
            yield _failure(played, role, ours, found, "" if alone else _followed(cause, ours, failed), missing)


def _cause(played: Played) -> Diagnosis | None:
    stopped = [task for task in played.snapshot.tasks if task.state is TaskState.STOPPED]
    failed = _failed(played)
    return judge(_case(played, [*failed, *stopped])) if failed else None


def _allowed(played: Played, role: str, failed: list[TaskAttempt]) -> bool:
    count = sum(task.role == role for task in failed)
    return bool(count) and allows_failures(played.snapshot.job, role, count)


def _role_of(found: Diagnosis | None, roles: Iterable[str]) -> str | None:
    """Of the task that it is about."""
    return found.task.rpartition("-")[0] if found and found.task else next(iter(roles), None)


def _followed(cause: Diagnosis | None, ours: list[TaskAttempt], failed: list[TaskAttempt]) -> str:
    """The task whose failure brought these about; empty: they failed by themselves."""
    if cause is None or not cause.task or not ours:
        return ""
    order = [task.task for task in failed]
    names = [task.task for task in ours]
    later = cause.task in order and order.index(cause.task) < order.index(names[0])
    return cause.task if later and set(names) <= set(cause.followers) else ""


def _failure(
    played: Played, role: str, failed: list[TaskAttempt], found: Diagnosis, cause: str, missing: Missing
) -> Remark:
    task = f"{found.task}: " if found.task and not found.title.startswith(found.task) else ""
    lines = [line for evidence in found.evidence for line in evidence.text.splitlines()]
    excuse = missing.excuse(found, role, "\n".join((found.title, found.explanation, *lines)))
    allowed = _allowed(played, role, failed)
    text = f"{task}{found.title}"
    if allowed:
        text = f"{_names(failed)} failed, which the job's own rules allow: {found.title}"
    elif excuse:
        text += f". It need not fail in the real run: {excuse}"
    elif cause:
        text += f". It may have failed only because {cause} did"
    return Remark(
        level=Level.WARNING if excuse or allowed or cause else Level.PROBLEM,
        about=About.ENGINE if found.fault is Fault.PLATFORM else About.EXIT,
        text=text,
        hint=" ".join(found.remedies),
        evidence=tuple(line for line in lines if line not in found.title)[:_MAX_EVIDENCE],
    )


def _tell_rules(played: Played, remarks: Remarks) -> None:
    """Where this run and the real one part."""
    tasks, real = played.snapshot.tasks, played.real
    if real is not None and real.outcome.result is Result.FAILED:
        later = sorted({task.role for task in tasks if task.finished_at and task.finished_at > real.at})
        if later:
            rest = ", ".join(later)
            text = f"The real run ends when {real.outcome.role} has failed, and stops the rest; here {rest} ran on"
            remarks.note(About.EXIT, text, "So that each role comes to its own faults.")
    for role in dict.fromkeys(task.role for task in tasks if task.exit and task.exit.kind is ExitKind.ATTEMPT_OVER):
        why = f": {played.outcome.message}" if played.outcome else ""
        text = f"Stopped before its end, as in the real run{why}"
        remarks.note(About.EXIT, text, f"To see it to its end: --role {role}.", role)


def diagnosis_of(played: Played, mask: Mask) -> Diagnosis | None:
    would_fail = played.real is not None and played.real.outcome.result is Result.FAILED
    found = _cause(played) if would_fail else None
    if found is None:
        return None
    return replace(
        found,
        title=mask(found.title),
        explanation=mask(found.explanation),
        evidence=tuple(replace(each, text=mask(each.text)) for each in found.evidence),
        remedies=tuple(map(mask, found.remedies)),
    )


def _failed(played: Played) -> list[TaskAttempt]:
    """Those that ended first first."""
    return sorted(
        (task for task in played.snapshot.tasks if task.state is TaskState.FAILED),
        key=lambda task: (task.finished_at is None, task.finished_at),
    )


def _case(played: Played, tasks: list[TaskAttempt]) -> Case:
    snapshot, outcome = played.snapshot, played.real.outcome if played.real else None
    return Case(
        job=snapshot.job,
        attempt=snapshot.attempt,
        exit=outcome.exit if outcome else None,
        message=outcome.message if outcome else "",
        outcome=outcome,
        tasks=tuple(_task_case(played, snapshot, task) for task in tasks if task.exit),
        failed=sum(task.state is TaskState.FAILED for task in tasks),
    )


def _task_case(played: Played, snapshot: JobSnapshot, task: TaskAttempt) -> TaskCase:
    assert task.exit is not None
    attempt_id = snapshot.attempt_id(task)
    heard, seen = played.heard.get(attempt_id), played.ends.get(attempt_id)
    used = seen.used if seen else None
    role = snapshot.job.role(task.role)
    return TaskCase(
        task=task.task,
        role=role,
        exit=task.exit,
        started_at=task.started_at,
        ended_at=task.finished_at,
        stopped=task.state is TaskState.STOPPED,
        log=heard.pieces if heard else (),
        memory_peak=used.memory_peak if used else None,
        memory_limit=role.resources.memory,
    )


def _names(tasks: list[TaskAttempt]) -> str:
    return ", ".join(task.task for task in tasks)


# -- how each task went


def tasks_of(played: Played) -> tuple[TaskRun, ...]:
    return tuple(_task_run(played, task) for task in played.snapshot.tasks)


def not_run_task(task: str, why: str) -> TaskRun:
    return TaskRun(task=task, state="Not run", seconds=None, code=None, message=f"Did not run: {why}")


def _task_run(played: Played, task: TaskAttempt) -> TaskRun:
    end = task.finished_at
    seconds = (end - task.started_at).total_seconds() if task.started_at and end else None
    cut = task.state is TaskState.STOPPED and played.ending is Ending.TIMEOUT
    reason = task.exit
    if cut and seconds is not None and reason is not None and reason.kind is ExitKind.CANCELLED:
        return TaskRun(
            task=task.task, state="Cut", seconds=seconds, code=None, message=f"Ran {seconds:.0f} s without failing"
        )
    code = reason.code if reason and reason.kind is not ExitKind.CANCELLED else None
    message = reason.message if reason else ""
    return TaskRun(task=task.task, state=str(task.state), seconds=seconds, code=code, message=message)


# -- ports


def _check_ports(played: Played, attempt_id: str, launch: Launch, remarks: Remarks) -> None:
    heard, looks = played.ports.get(attempt_id, set()), played.looks.get(attempt_id, 0)
    asked = {port for numbers in launch.ports.values() for port in numbers}
    strange = sorted(port for port in heard - asked if not is_chosen_by_kernel(port))
    quiet = [(label, numbers) for label, numbers in launch.ports.items() if not heard & set(numbers)]
    dialect = played.snapshot.job.dialect
    for port in strange:
        text = f"{launch.task} listens on port {port}, which it did not ask for: in the real run others may have it"
        hint = f"Let it listen on {_variable(dialect, quiet[0][0])}, which it asks for." if quiet else _ask(dialect)
        remarks.warn(About.PORT, text, hint)
    for label, numbers in quiet if looks >= _LOOKS else ():
        listed = ", ".join(map(str, numbers))
        text = f"{launch.task} asks for the port {label} ({listed}), and nothing in it was seen to listen there"
        other = f" It listens on {', '.join(map(str, strange))} instead." if strange else " Or leave the port out."
        remarks.warn(About.PORT, text, f"Let it listen on {_variable(dialect, label)}.{other}")


def _ask(dialect: Dialect) -> str:
    where = {Dialect.OPENPAI_V1: "portList", Dialect.OPENPAI_V2: "resourcePerInstance.ports"}.get(dialect, "ports")
    return f"Ask for it under {where}, and listen on {_variable(dialect, 'NAME')}."


def _variable(dialect: Dialect, label: str) -> str:
    if dialect.openpai:
        return f"$PAI_CONTAINER_HOST_{label}_PORT_LIST"
    return f"$HOLDFAST_PORT_{variable_name(label)}"


def masked(remark: Remark, mask: Mask) -> Remark:
    return replace(remark, text=mask(remark.text), hint=mask(remark.hint), evidence=tuple(map(mask, remark.evidence)))
