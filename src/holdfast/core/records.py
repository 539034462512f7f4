"""Stored records besides live jobs: list rows, events, users. Plain data, as stores return it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from .attempt import Outcome, TaskAttempt
from .job import Hold, JobFormat
from .scheduling.placement import Quota
from .states import JobState

T = TypeVar("T")

# Kinds of events about a task's artifacts.
ARTIFACTS_SAVED_EVENT = "artifacts"
ARTIFACTS_INCOMPLETE_EVENT = "artifacts-incomplete"


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
    dialect: JobFormat
    tags: tuple[str, ...] = ()
    rerun_of: str | None = None
    stopping: bool = False  # a stop was requested and is in progress
    stop_why: str = ""  # reason of an automatic stop, see StopRequest
    role_count: int = 1
    user_retries: int = 0
    platform_retries: int = 0
    retry_at: datetime | None = None  # start of its next attempt
    exit_cause: str = ""  # the exact cause of its end, if known
    schedule: str | None = None  # the id of the schedule that was due
    held_until: datetime | None = None  # while it is on hold: when the last hold expires; not stored


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Filters of the job list, combined with AND; None: any."""

    groups: tuple[str, ...] | None = None
    user: str | None = None
    states: tuple[JobState, ...] | None = None
    text: str | None = None  # part of the name or the id
    submitted_after: datetime | None = None
    submitted_before: datetime | None = None


class JobOrder(StrEnum):
    """Sort keys of numbered pages."""

    NAME = "name"
    SUBMITTED = "submitted"
    USER = "user"
    GROUP = "group"
    RETRIES = "retries"
    TASKS = "tasks"
    GPUS = "gpus"
    STATE = "state"
    FINISHED = "finished"
    PRIORITY = "priority"
    SCHEDULE = "schedule"
    SHOWN_STATE = "shown-state"  # by name: a stopping job counts as Cancelled, a held one as Running


class JobPhase(StrEnum):
    """A finer state of a job, for filters of numbered pages."""

    WAITING = "waiting"  # waiting for resources, or starting
    RUNNING = "running"  # also held, and between two attempts
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPageQuery:
    """A numbered page of the job list, for clients without cursors. Filters are combined with AND; None: any."""

    groups: tuple[str, ...] | None = None  # visible to the user
    named_groups: tuple[str, ...] | None = None  # requested
    users: tuple[str, ...] | None = None
    phases: tuple[JobPhase, ...] | None = None
    text: str | None = None  # part of the name, of the user or of the group
    name_or_id: str | None = None  # part of the name or of the id
    in_name: str | None = None  # part of the name, case-sensitive
    before_seq: int | None = None  # submitted before that one
    after_seq: int | None = None
    tags_any: tuple[str, ...] | None = None
    tags_none: tuple[str, ...] | None = None
    held_tag: str = ""  # as if every held job had it
    priorities: tuple[int, ...] | None = None
    other_priorities: tuple[int, ...] | None = None  # or any priority but these
    order: JobOrder = JobOrder.SUBMITTED
    ordered_priorities: tuple[int, ...] | None = None  # by priority, all but these are as if there was none
    descending: bool = True
    offset: int = 0
    limit: int = 5000


@dataclass(frozen=True, slots=True)
class OffsetPage:
    items: tuple[JobSummary, ...]
    total: int | None  # None: not requested


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next: str | None  # cursor of the page after this one


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event of a job, with its reason and actor."""

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
    """One stored try of one task."""

    job_id: str
    attempt: int  # of the job
    task: TaskAttempt
    attempt_id: str
    logs_removed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAttempt:
    """One ended attempt of a job. The newest one is part of the job itself."""

    number: int
    started_at: datetime | None  # its first task started
    finished_at: datetime
    outcome: Outcome
    counted: bool  # the next attempt counts as a retry of the job


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    admin: bool
    email: str
    created_at: datetime
    groups: Mapping[str, bool] = field(default_factory=dict)  # group -> is its admin
    disabled: bool = False
    extension: Mapping[str, Any] = field(default_factory=dict)  # data that clients store with a user, such as SSH keys
    usual_group: str = ""  # default group; see `access.choose_default_group`


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    quota: Quota = field(default_factory=Quota)  # of the whole group
    user_quota: Quota = field(default_factory=Quota)  # of each user in it
    time_limit: timedelta | None = None  # default for its jobs; None: the admin's
    members: Mapping[str, bool] = field(default_factory=dict)  # user -> is its admin
    shared_volume: bool = False  # its jobs have a persistent folder at /project/GROUP
    volume_capacity: int | None = None  # GB; shown, not enforced
    launch_only: bool = True  # jobs of its members in other groups do not see that folder
    home_symlink: bool = True  # /home/jovyan/GROUP leads to it
    hold: Hold | None = None  # default for its jobs; None: not held
    engine: str = ""  # default for its jobs; empty: the server's
    slurm: Mapping[str, str] = field(default_factory=dict)  # its jobs' options for Slurm; see core.slurm_options
    extension: Mapping[str, Any] = field(default_factory=dict)  # data that clients store with a group


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlflow:
    """A group's MLflow server. Variables may contain passwords."""

    tracking_uri: str
    ui_url: str = ""
    tracking_envs: Mapping[str, str] = field(default_factory=dict)  # to reach the tracking server
    artifact_envs: Mapping[str, str] = field(default_factory=dict)  # to access its artifact store


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A named dataset for jobs: a folder to mount, or variables."""

    name: str
    path: str  # on every node; empty with the kind env
    display_name: str = ""  # empty: the name
    description: str = ""
    read_only: bool = True  # for all but the writable groups
    everyone: bool = False  # else only the groups below
    groups: tuple[str, ...] = ()
    writable_groups: tuple[str, ...] = ()  # those of `groups` with write access despite read_only
    per_user: bool = False  # each user gets the folder of their own name in it
    default: bool = False  # mounted when a job requests its user's default datasets
    kind: str = "folder"  # folder, nfs, volume (a folder that Holdfast created), git or env
    data: Mapping[str, Any] = field(default_factory=dict)  # with nfs: server, path; with git: url, secret; no secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An API token, without its secret."""

    id: str
    user: str
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
