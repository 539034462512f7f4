"""From how the tasks went to what is to be said of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from holdfast.core.attempt import JobSnapshot, Result, TaskAttempt
from holdfast.core.exits import ExitKind
from holdfast.core.job import Dialect, Job
from holdfast.core.states import TaskState
from holdfast.core.verdicts import Diagnosis, Fault
from holdfast.diagnosis.case import Case, TaskCase
from holdfast.diagnosis.judge import judge
from holdfast.engines.base import Launch

from .heard import Mask
from .listening import is_chosen_by_kernel
from .playing import Played
from .report import About, Ending, Level, Remark, Remarks, TaskRun

_LOOKS = 4  # at who listens where, before one that was not seen counts as one that did not
_MOST_EVIDENCE = 5  # lines
_GPU_FAULTS = (Fault.GPU_MISSING, Fault.GPU_DRIVER, Fault.GPU_OUT_OF_MEMORY)
_GPU_WORDS = re.compile(r"nvidia|cuda|\bgpu", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Missing:
    """What the real run has and this one has not: a failure for the lack of it says nothing."""

    job: Job  # as it is in the real run
    cut: Job  # as it was run
    folders: Collection[str]  # that are empty here

    def excuse(self, found: Diagnosis, text: str) -> str:
        """Why this failure may be none; empty: it is one."""
        folder = next((folder for folder in self.folders if folder in text), None)
        if folder is not None:
            return f"{folder} is empty in a simulation"
        for real, here in zip(self.job.roles, self.cut.roles, strict=True):
            if here.resources.gpu < real.resources.gpu and (found.fault in _GPU_FAULTS or _GPU_WORDS.search(text)):
                return "there are fewer GPUs here than it asks for"
            if here.resources.memory < real.resources.memory and found.fault is Fault.OUT_OF_MEMORY:
                return "there is less memory here than it asks for"
        return ""


def conclude(played: Played, launches: Mapping[str, Launch], missing: Missing, remarks: Remarks) -> None:
    failed = [task for task in played.snapshot.tasks if task.state is TaskState.FAILED]
    outcome = played.outcome
    if outcome is not None and outcome.result is Result.FAILED:
        remarks.add(_failure(played, outcome.message, missing))
    elif failed:
        text = f"{_names(failed)} failed, which the job's own rules allow"
        remarks.warn(About.EXIT, text)
    for attempt_id, launch in launches.items():
        _check_ports(played, attempt_id, launch, remarks)


def _failure(played: Played, message: str, missing: Missing) -> Remark:
    found = judge(_case(played))
    if found is None:
        return Remark(level=Level.PROBLEM, about=About.EXIT, text=message)
    task = f"{found.task}: " if found.task and not found.title.startswith(found.task) else ""
    lines = [line for evidence in found.evidence for line in evidence.text.splitlines()]
    excuse = missing.excuse(found, "\n".join((found.title, found.explanation, *lines)))
    return Remark(
        level=Level.WARNING if excuse else Level.PROBLEM,
        about=About.ENGINE if found.fault is Fault.PLATFORM else About.EXIT,
        text=f"{task}{found.title}" + (f". It need not fail in the real run: {excuse}" if excuse else ""),
        hint=" ".join(found.remedies),
        evidence=tuple(line for line in lines if line not in found.title)[:_MOST_EVIDENCE],
    )


def diagnosis_of(played: Played, mask: Mask) -> Diagnosis | None:
    failed = played.outcome is not None and played.outcome.result is Result.FAILED
    found = judge(_case(played)) if failed else None
    if found is None:
        return None
    return replace(
        found,
        title=mask(found.title),
        explanation=mask(found.explanation),
        evidence=tuple(replace(each, text=mask(each.text)) for each in found.evidence),
        remedies=tuple(map(mask, found.remedies)),
    )


def _case(played: Played) -> Case:
    snapshot = played.snapshot
    failed = sorted(
        (task for task in snapshot.tasks if task.state is TaskState.FAILED),
        key=lambda task: (task.finished_at is None, task.finished_at),
    )
    stopped = [task for task in snapshot.tasks if task.state is TaskState.STOPPED]
    outcome = played.outcome
    return Case(
        job=snapshot.job,
        attempt=snapshot.attempt,
        exit=snapshot.exit or (outcome.exit if outcome else None),
        message=snapshot.message,
        outcome=outcome,
        tasks=tuple(_task_case(played, snapshot, task) for task in (*failed, *stopped) if task.exit),
        failed=len(failed),
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


def tasks_of(played: Played) -> tuple[TaskRun, ...]:
    return tuple(_task_run(played, task) for task in played.snapshot.tasks)


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
    openpai = played.snapshot.job.dialect in (Dialect.OPENPAI_V1, Dialect.OPENPAI_V2)
    for port in sorted(port for port in heard - asked if not is_chosen_by_kernel(port)):
        text = f"{launch.task} listens on port {port}, which it did not ask for: in the real run others may have it"
        remarks.warn(About.PORT, text, _use(openpai, next(iter(launch.ports), "NAME")))
    for label, numbers in _quiet(launch, heard) if looks >= _LOOKS else ():
        listed = ", ".join(map(str, numbers))
        text = f"{launch.task} asks for the port {label} ({listed}), and nothing in it was seen to listen there"
        remarks.warn(About.PORT, text, _use(openpai, label))


def _quiet(launch: Launch, heard: set[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((label, numbers) for label, numbers in launch.ports.items() if not heard & set(numbers))


def _use(openpai: bool, label: str) -> str:
    if openpai:
        return f"Ask for it under portList or ports, and listen on $PAI_CONTAINER_HOST_{label}_PORT_LIST."
    return f"Ask for it under ports, and listen on $HOLDFAST_PORT_{label.upper().replace('-', '_')}."


def masked(remark: Remark, mask: Mask) -> Remark:
    return replace(remark, text=mask(remark.text), hint=mask(remark.hint), evidence=tuple(map(mask, remark.evidence)))
