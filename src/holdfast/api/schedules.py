"""Schedules and their runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from holdfast.core.schedule import MissedRunPolicy, OverlapPolicy, RecurrenceKind
from holdfast.core.states import JobState

from .limits import Limits, Name

MAX_JOB_LENGTH = 2**20  # characters of a job file


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """When a schedule runs."""

    kind: Annotated[str, RecurrenceKind] = "custom"
    cron: Annotated[Name | None, "Cron expression with five fields; only used with the kind custom."] = None
    timezone: Annotated[Name, "Such as Europe/Berlin; empty: the server's."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule that submits a job repeatedly."""

    id: str
    name: str
    user: Annotated[str, "Owner of its jobs."] = ""
    group: str = ""
    recurrence: Recurrence
    timezone: Annotated[str, "Effective time zone."] = ""
    overlap: Annotated[str, OverlapPolicy] = "skip"
    missed: Annotated[str, MissedRunPolicy] = "skip"
    ends_at: datetime | None = None
    paused: bool = False
    invalid: Annotated[
        str | None, "Why it cannot run: cron, timezone, user, member, group, instance-type, image or other."
    ] = None
    message: str = ""
    next_run_at: Annotated[datetime | None, "Next run; while invalid: the next check."] = None
    queued_at: Annotated[datetime | None, "Due time of a queued run that waits for the previous job to end."] = None
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
    next_runs: Annotated[tuple[datetime, ...], "Next five run times."] = ()
    warnings: Annotated[tuple[str, ...], "Warnings about the job file; only in the response to a change."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePreview:
    timezone: str
    times: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a schedule and its result."""

    seq: int
    due_at: datetime
    at: Annotated[datetime, "When it was processed."]
    result: Literal["started", "skipped", "missed", "failed"]
    job: Annotated[str | None, "The job's id."] = None
    state: Annotated[JobState | None, "The job's current state."] = None
    message: str = ""
    actor: Annotated[str, "User who started it; holdfast: the schedule itself."] = ""


_JobFile = Annotated[str, Limits(max_length=MAX_JOB_LENGTH)]


class ScheduleFields(TypedDict, total=False):
    group: Annotated[Name | None, "Overrides the group of the job file."]
    dialect: Annotated[Name | None, "Format of the job file. Default: detected."]
    file_name: Annotated[Name | None, "Name of a batch script that sets no name."]
    overlap: Annotated[str | None, OverlapPolicy, "Default: skip."]
    missed: Annotated[str | None, MissedRunPolicy, "Default: skip."]
    paused: bool | None


class NewSchedule(ScheduleFields):
    job: Annotated[_JobFile, "Job file in any supported format."]
    recurrence: Recurrence
    ends_at: NotRequired[Annotated[Name | None, "End of the schedule."]]


class ScheduleChange(ScheduleFields, total=False):
    job: Annotated[_JobFile | None, "New job file."]
    form: Annotated[Mapping[str, Any] | None, "Fields of PrimeHub's job form, if the job file has that format."]
    recurrence: Recurrence | None
    ends_at: Annotated[Name | None, "End of the schedule; null: no end."]


class SchedulePreviewRequest(TypedDict):
    recurrence: Recurrence
    count: NotRequired[Annotated[int, "Default: 5.", Limits(ge=1, le=100)]]
    ends_at: NotRequired[Name | None]
