"""Schedules: jobs that are submitted again and again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from holdfast.core.states import JobState

RecurrenceName = Literal["inactive", "daily", "weekly", "monthly", "custom"]
OverlapName = Literal["skip", "queue", "cancel"]
MissedName = Literal["skip", "once"]
CRON = "minute hour day-of-month month day-of-week; only used with the kind custom."
TIMEZONE = "Such as Europe/Berlin; empty: the server's."
OVERLAP = "What a due run does while a job of an earlier one is not finished."
MISSED = "What happens to runs that were due while no server ran."


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """When a schedule is due."""

    kind: RecurrenceName = "custom"
    cron: Annotated[str | None, CRON] = None
    timezone: Annotated[str, TIMEZONE] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A job that is submitted again and again."""

    id: str
    name: str
    user: Annotated[str, "The owner of its jobs."] = ""
    group: str = ""
    recurrence: Recurrence
    timezone: Annotated[str, "The effective time zone: its own, or the server's."] = ""
    overlap: Annotated[OverlapName, OVERLAP] = "skip"
    missed: Annotated[MissedName, MISSED] = "skip"
    ends_at: datetime | None = None
    paused: bool = False
    invalid: Annotated[
        str | None, "Why it cannot run: cron, timezone, user, member, group, instance-type, image or other."
    ] = None
    message: str = ""
    next_run_at: Annotated[datetime | None, "While it is invalid: when it is checked again."] = None
    queued_at: Annotated[datetime | None, "When a run was due that waits for an earlier job to end."] = None
    last_run_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    items: tuple[Schedule, ...]
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail(Schedule):
    job: Annotated[Mapping[str, Any], "The template in canonical form; secrets are masked."] = field(
        default_factory=dict
    )
    source: Annotated[str, "The template as it was written; secrets are masked."] = ""
    next_runs: Annotated[tuple[datetime, ...], "The next five times it is due."] = ()
    warnings: Annotated[tuple[str, ...], "About the job file, right after it was sent."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    timezone: str
    times: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of one due time of a schedule, or of a request to run it."""

    seq: int
    due_at: datetime
    at: Annotated[datetime, "When it was processed."]
    result: Literal["started", "skipped", "missed", "failed"]
    job: Annotated[str | None, "The job's id."] = None
    state: Annotated[JobState | None, "The job's current state."] = None
    message: str = ""
    actor: Annotated[str, "Who asked for it; holdfast: it was due."] = ""
