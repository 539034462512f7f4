"""Schedules: a job template with a recurrence, and its runs. Plain data, as stores return it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .job import Job
from .states import JobState


class RecurrenceKind(StrEnum):
    INACTIVE = "inactive"  # only on request
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    CUSTOM = "custom"


CRON_PRESETS = {
    RecurrenceKind.DAILY: "0 4 * * *",
    RecurrenceKind.WEEKLY: "0 4 * * 0",
    RecurrenceKind.MONTHLY: "0 4 1 * *",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    kind: RecurrenceKind = RecurrenceKind.INACTIVE
    cron: str | None = None  # as written; used by the kind custom only
    timezone: str = ""  # such as Europe/Berlin; empty: the server's

    @property
    def effective_cron(self) -> str | None:
        """The cron expression in effect; None when it never runs by itself."""
        return self.cron if self.kind is RecurrenceKind.CUSTOM else CRON_PRESETS.get(self.kind)


class OverlapPolicy(StrEnum):
    """What a due run does while the job of an earlier run is active."""

    SKIP = "skip"  # skip the run
    QUEUE = "queue"  # wait until that job has ended; at most one waits
    CANCEL = "cancel"  # stop that job, and run


class InvalidReason(StrEnum):
    """Why a schedule cannot run now."""

    CRON = "cron"  # its cron expression, or a time that never occurs
    TIMEZONE = "timezone"
    USER = "user"  # its user is deleted or disabled
    MEMBER = "member"  # its user is no longer in the group
    GROUP = "group"  # the group does not exist
    INSTANCE_TYPE = "instance-type"  # not available to the group
    IMAGE = "image"  # unknown on this server
    OTHER = "other"  # any other error in the job file


class MissedRunPolicy(StrEnum):
    """What happens to runs that were due while the server was down."""

    SKIP = "skip"
    ONCE = "once"  # one run replaces all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    id: str  # recurrence-4f7k2a
    name: str
    user: str  # owner of its jobs
    group: str
    job: Job  # the template, its secrets masked
    source: str  # as written, secrets masked
    recurrence: Recurrence
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    missed: MissedRunPolicy = MissedRunPolicy.SKIP
    ends_at: datetime | None = None  # nothing is due after it
    paused: bool = False
    invalid: InvalidReason | None = None  # it cannot run, and message says why
    message: str = ""
    next_run_at: datetime | None = None  # None: inactive, paused or ended; while invalid, when it is checked again
    queued_at: datetime | None = None  # a run was due then and waits for an earlier job to end
    last_run_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    version: int = 0


class ScheduleOrder(StrEnum):
    """Sort keys of schedule lists."""

    UPDATED = "updated"
    CREATED = "created"
    NAME = "name"
    GROUP = "group"
    USER = "user"
    NEXT_RUN = "next-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuery:
    """A page of the list. Filters are combined with AND; None: any."""

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
    STARTED = "started"  # a job was created
    SKIPPED = "skipped"  # a job of an earlier run was not finished
    MISSED = "missed"  # the server was down at that time
    FAILED = "failed"  # no job could be created, and message says why


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """One run of a schedule, due or requested."""

    seq: int
    schedule_id: str
    due_at: datetime
    at: datetime
    result: RunResult
    job_id: str | None = None
    job_state: JobState | None = None  # state of that job
    message: str = ""
    actor: str = "holdfast"  # user who requested it, else the schedule itself
