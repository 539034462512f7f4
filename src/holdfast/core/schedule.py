"""Schedules: a job template with a recurrence, and what came of each time it was due. Plain data, as stores give it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .job import Job
from .states import JobState


class RecurrenceKind(StrEnum):
    INACTIVE = "inactive"  # only when somebody asks for a run
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    CUSTOM = "custom"


PRESETS = {
    RecurrenceKind.DAILY: "0 4 * * *",
    RecurrenceKind.WEEKLY: "0 4 * * 0",
    RecurrenceKind.MONTHLY: "0 4 1 * *",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    kind: RecurrenceKind = RecurrenceKind.INACTIVE
    cron: str | None = None  # as written; only the kind custom goes by it
    timezone: str = ""  # such as Europe/Berlin; empty: the server's

    @property
    def in_force(self) -> str | None:
        """The cron text it goes by; None when it never runs by itself."""
        return self.cron if self.kind is RecurrenceKind.CUSTOM else PRESETS.get(self.kind)


class Overlap(StrEnum):
    """What a due run does while a job of an earlier one is not finished."""

    SKIP = "skip"  # nothing: the next time is another chance
    QUEUE = "queue"  # waits until that job has ended; at most one waits
    CANCEL = "cancel"  # stops that job, and runs


class Invalid(StrEnum):
    """Why a schedule cannot run now."""

    CRON = "cron"  # its cron text, or a time that never comes
    TIMEZONE = "timezone"
    USER = "user"  # its user is gone or disabled
    MEMBER = "member"  # its user is no longer in the group
    GROUP = "group"  # there is no such group
    INSTANCE_TYPE = "instance-type"  # there is none such for the group
    IMAGE = "image"  # nobody knows it here
    OTHER = "other"  # whatever else the job file is refused for


class Missed(StrEnum):
    """What happens to runs that were due while no server ran."""

    SKIP = "skip"
    ONCE = "once"  # one run makes up for all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    id: str  # recurrence-4f7k2a
    name: str
    user: str  # whose its jobs are
    group: str
    job: Job  # the template, its secrets masked
    source: str  # as written, secrets masked
    recurrence: Recurrence
    overlap: Overlap = Overlap.SKIP
    missed: Missed = Missed.SKIP
    ends_at: datetime | None = None  # nothing is due after it
    paused: bool = False
    invalid: Invalid | None = None  # it cannot run, and message says why
    message: str = ""
    next_run_at: datetime | None = None  # None: inactive, paused or over; while invalid, when it is looked at again
    queued_at: datetime | None = None  # a run was due then and waits for an earlier job to end
    last_run_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    version: int = 0


class ScheduleOrder(StrEnum):
    """What lists are sorted by."""

    UPDATED = "updated"
    CREATED = "created"
    NAME = "name"
    GROUP = "group"
    USER = "user"
    NEXT_RUN = "next-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuery:
    """A page of the list. Every condition must hold; None means any."""

    groups: tuple[str, ...] | None = None
    user: str | None = None
    text: str | None = None  # part of the name or the id
    order: ScheduleOrder = ScheduleOrder.UPDATED
    descending: bool = True
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class SchedulePage:
    items: tuple[Schedule, ...]
    total: int


class RunResult(StrEnum):
    STARTED = "started"  # there is a job
    SKIPPED = "skipped"  # a job of an earlier run was not finished
    MISSED = "missed"  # no server ran at that time
    FAILED = "failed"  # no job could be made, and message says why


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one time that a schedule was due, or that somebody asked for."""

    seq: int
    schedule_id: str
    due_at: datetime
    at: datetime
    result: RunResult
    job_id: str | None = None
    job_state: JobState | None = None  # where that job is now
    message: str = ""
    actor: str = "holdfast"  # who asked for it, else the schedule itself
