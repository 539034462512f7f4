"""A plan for one job: its next state, what changed, and the steps to perform."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ..attempt import JobSnapshot, TaskAttempt
from ..holds import HoldPolicy
from ..records import JobAttempt, NewEvent


@dataclass(frozen=True, slots=True)
class StartStep:
    attempt_id: str
    task: TaskAttempt


@dataclass(frozen=True, slots=True)
class StopStep:
    attempt_id: str
    grace: timedelta


@dataclass(frozen=True, slots=True)
class RemoveStep:
    """Free the resources of an ended attempt, except its logs."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class AppendLogStep:
    """Add a text to its log, once for each key."""

    attempt_id: str
    key: str
    text: str


Step = StartStep | StopStep | RemoveStep | AppendLogStep


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicy:
    """Limits from the settings of the admin, the group and the job."""

    time_limit: timedelta | None  # None: no limit
    grace: timedelta
    hold: HoldPolicy | None = None  # None: its tasks are not held


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    after: JobSnapshot
    tasks: tuple[TaskAttempt, ...] = ()  # those of the current attempt that changed
    steps: tuple[Step, ...] = ()
    events: tuple[NewEvent, ...] = ()
    ended: JobAttempt | None = None  # the ended attempt, when another one follows
    wake_in: timedelta | None = None  # plan again then, even without events
