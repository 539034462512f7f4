"""Completion rules of a job in a simulation, and their effect in the real run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from holdfast.core.attempt import Outcome, TaskAttempt
from holdfast.core.completion import decide_outcome
from holdfast.core.job import Job
from holdfast.core.states import TaskState


@dataclass(frozen=True, slots=True)
class TimedOutcome:
    outcome: Outcome
    at: datetime


def remove_failure_rules(job: Job) -> Job:
    """Remove the rules that end a job after a failure, so that every role runs to its end."""
    return replace(
        job, roles=tuple(replace(role, completion=replace(role.completion, min_failed=None)) for role in job.roles)
    )


def decide_real_outcome(job: Job, tasks: tuple[TaskAttempt, ...]) -> TimedOutcome | None:
    """Return how the real run would have ended with these tasks; None: it would still run."""
    going = {task.task: replace(task, state=TaskState.RUNNING) for task in tasks}
    for task in sorted(filter(_has_exited, tasks), key=_get_end_time):
        going[task.task] = task
        outcome = decide_outcome(job, tuple(going.values()))
        if outcome is not None:
            return TimedOutcome(outcome, _get_end_time(task))
    return None


def can_tolerate_failures(job: Job, role: str, count: int) -> bool:
    """Whether this many failed tasks of the role do not fail the job."""
    needed = job.get_role(role).completion.min_failed
    return needed is None or needed < 1 or count < needed


def _has_exited(task: TaskAttempt) -> bool:
    return task.state in (TaskState.FAILED, TaskState.SUCCEEDED) and task.finished_at is not None


def _get_end_time(task: TaskAttempt) -> datetime:
    assert task.finished_at is not None
    return task.finished_at
