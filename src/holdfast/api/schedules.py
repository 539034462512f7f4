"""Schedules: jobs that are submitted again and again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from holdfast.core.schedule import Missed, Overlap, RecurrenceKind
from holdfast.core.states import JobState

from .limits import Limits, Name

MAX_JOB_LENGTH = 2**20  # characters of a job file


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """When a schedule is due."""

    kind: Annotated[str, RecurrenceKind] = "custom"
    cron: Annotated[Name | None, "minute hour day-of-month month day-of-week; only used with the kind custom."] = None
    timezone: Annotated[Name, "Such as Europe/Berlin; empty: the server's."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A job that is submitted again and again."""

    id: str
    name: str
    user: Annotated[str, "The owner of its jobs."] = ""
    group: str = ""
    recurrence: Recurrence
    timezone: Annotated[str, "The effective time zone: its own, or the server's."] = ""
    overlap: Annotated[str, Overlap] = "skip"
    missed: Annotated[str, Missed] = "skip"
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


_JobFile = Annotated[str, Limits(max_length=MAX_JOB_LENGTH)]


class ScheduleFields(TypedDict, total=False):
    group: Annotated[Name | None, "Whatever the job file says."]
    dialect: Annotated[Name | None, "Of the job file; left out: it is detected."]
    overlap: Annotated[str | None, Overlap, "Default: skip."]
    missed: Annotated[str | None, Missed, "Default: skip."]
    paused: bool | None


class NewSchedule(ScheduleFields):
    job: Annotated[_JobFile, "A job file in any dialect."]
    recurrence: Recurrence
    ends_at: NotRequired[Annotated[Name | None, "Nothing is due after this time."]]


class ScheduleChange(ScheduleFields, total=False):
    job: Annotated[_JobFile | None, "Another job file."]
    form: Annotated[Mapping[str, Any] | None, "Some fields of PrimeHub's job form, where the job file is in that form."]
    recurrence: Recurrence | None
    ends_at: Annotated[Name | None, "Nothing is due after this time; null: no end."]


class PreviewRequest(TypedDict):
    recurrence: Recurrence
    count: NotRequired[Annotated[int, "Default: 5.", Limits(ge=1, le=100)]]
    ends_at: NotRequired[Name | None]
