"""What is remembered besides a job's live state: list rows, events, people. Plain data, as stores return it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from .attempt import TaskAttempt
from .job import Dialect
from .placement import Quota
from .states import JobState

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A row of the job list."""

    id: str
    seq: int  # order of submission; the paging key
    name: str
    user: str
    group: str
    state: JobState
    message: str
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    exit_kind: str | None
    attempt: int
    task_count: int
    cpu: float  # of all tasks together
    memory: int
    gpu: int
    priority: int
    dialect: Dialect
    tags: tuple[str, ...] = ()
    rerun_of: str | None = None
    stopping: bool = False  # a stop was asked for and is under way


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Every condition must hold; None means any."""

    groups: tuple[str, ...] | None = None
    user: str | None = None
    states: tuple[JobState, ...] | None = None
    text: str | None = None  # part of the name or the id
    submitted_after: datetime | None = None
    submitted_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next: str | None  # cursor of the page after this one


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """Something that happened to a job, with its reason and who caused it."""

    kind: str  # submitted, placed, started, task-failed, retry, stop-requested, succeeded, ...
    message: str
    at: datetime
    actor: str = "holdfast"  # a user's name, or holdfast
    task: str | None = None  # worker-0, when it is about one task
    attempt: int | None = None
    state: JobState | None = None  # the job's state after it, when it changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(NewEvent):
    seq: int
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """One try of one task, as history keeps it."""

    job_id: str
    attempt: int  # of the job
    task: TaskAttempt
    attempt_id: str
    logs_removed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    admin: bool
    email: str
    created_at: datetime
    groups: Mapping[str, bool] = field(default_factory=dict)  # group -> is its admin
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    description: str = ""
    quota: Quota = field(default_factory=Quota)  # of the whole group
    user_quota: Quota = field(default_factory=Quota)  # of each user in it
    time_limit: timedelta | None = None  # default for its jobs; None: the admin's
    members: Mapping[str, bool] = field(default_factory=dict)  # user -> is its admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An API token, without its secret."""

    id: str
    user: str
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
