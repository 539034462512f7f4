"""The completion rules of a job: which of them end a simulation, and what all of them would do in the real run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from holdfast.core.attempt import Outcome, TaskAttempt
from holdfast.core.completion import decide_outcome
from holdfast.core.job import Job
from holdfast.core.states import TaskState


@dataclass(frozen=True, slots=True)
class Decision:
    outcome: Outcome
    at: datetime


def heard_out(job: Job) -> Job:
    """The job without the rules by which a failure ends it: every role comes to its own end, and its own fault."""
    return replace(
        job,
        roles=tuple(replace(role, completion=replace(role.completion, min_failed=None)) for role in job.roles),
    )


def real_decision(job: Job, tasks: tuple[TaskAttempt, ...]) -> Decision | None:
    """How the real run would have been decided, had its tasks ended as these did; None: it would still run."""
    going = {task.task: replace(task, state=TaskState.RUNNING) for task in tasks}
    for task in sorted(filter(_ended_itself, tasks), key=_end):
        going[task.task] = task
        outcome = decide_outcome(job, tuple(going.values()))
        if outcome is not None:
            return Decision(outcome, _end(task))
    return None


def allows_failures(job: Job, role: str, count: int) -> bool:
    """So many failed tasks of the role do not fail the job."""
    needed = job.role(role).completion.min_failed
    return needed is None or needed < 1 or count < needed


def _ended_itself(task: TaskAttempt) -> bool:
    return task.state in (TaskState.FAILED, TaskState.SUCCEEDED) and task.finished_at is not None


def _end(task: TaskAttempt) -> datetime:
    assert task.finished_at is not None
    return task.finished_at
