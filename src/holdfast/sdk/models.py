"""What the server answers, as typed records. Times are UTC, durations seconds, sizes bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from holdfast.core.states import JobState

from .inside_models import Debugger, SshLine

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A quantity of resources."""

    cpu: float = 0.0  # cores
    memory: int = 0  # bytes
    gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """An upper bound of each resource; None is unbounded."""

    cpu: float | None = None
    memory: int | None = None
    gpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next: str | None = None  # cursor of the page after this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a job or a task ended."""

    kind: str  # succeeded, user-error, out-of-memory, time-limit, refused, platform, cancelled, attempt-over
    code: int | None = None  # the program's own exit code
    signal: int | None = None
    message: str = ""
    behaviour: str = ""  # what another try would likely bring
    cause: str = ""  # what is known beyond kind and code, in a word
    hint: str = ""  # what to try


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A row of the job list."""

    id: str
    name: str
    user: str = ""
    group: str = ""
    state: JobState
    message: str = ""  # why it is in this state
    submitted_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    exit_kind: str | None = None
    attempt: int = 0  # from 0
    task_count: int = 1
    resources: Amount = field(default_factory=Amount)  # of all tasks together
    priority: int = 0
    dialect: str = ""
    tags: tuple[str, ...] = ()
    rerun_of: str | None = None
    schedule: str | None = None  # id of the schedule that was due
    stopping: bool = False
    held_until: datetime | None = None  # while it is held: when the last of its failed tasks is let go
    debugger: str | None = None  # in lists: where one waits for somebody, train.py:42 in worker-3
    warnings: tuple[str, ...] = ()  # about the job file, right after submitting


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A failed task that is kept, or was."""

    since: datetime
    until: datetime
    keep: str = "all"  # or files
    ended: bool = False  # none of its processes are left


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask(Held):
    task: str  # worker-0
    latest: datetime  # it cannot be extended beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What of a job is held."""

    job: str  # its id
    tasks: tuple[HeldTask, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One try of one task."""

    task: str  # worker-0
    role: str = ""
    index: int = 0
    attempt: int = 0  # of the job, from 0
    number: int = 0  # which try of this task within that attempt, from 0
    attempt_id: str = ""
    state: str
    node: str | None = None
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    placed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit: Exit | None = None  # while it is held, of its command
    held: Held | None = None  # while it is held, and of one that was
    logs: str = "none"  # kept, expired or none
    logs_expired_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(JobSummary):
    released: tuple[str, ...] = ()  # the tasks that are let go


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    user: int = 0
    platform: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    actor: str
    at: datetime
    why: str = ""  # what happened, where nobody asked for it by hand


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFailure:
    """Why a job failed, in a line; `Client.why` says more."""

    fault: str
    title: str
    task: str | None = None  # the one whose failure was the cause


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobSummary):
    """Everything about one job, with the tasks of its current attempt."""

    job: Mapping[str, Any] = field(default_factory=dict)  # canonical, secrets masked
    description: str = ""
    exit: Exit | None = None
    failure: KeptFailure | None = None  # of one that failed, once it is known
    retries: Retries = field(default_factory=Retries)
    retry_at: datetime | None = None
    time_limit: float | None = None  # seconds, as it applies; None: no limit
    stop: StopRequest | None = None
    tasks: tuple[Task, ...] = ()
    decided_by: str | None = None  # the task that decided how this attempt ended; None: not one alone, or not yet
    waiting: tuple[str, ...] | None = None  # why it waits
    isolation: str = ""  # full, read-only or none
    debuggers: tuple[Debugger, ...] = ()  # in its tasks; first those that wait for somebody
    ssh: tuple[SshLine, ...] = ()  # into those of its tasks that one could enter now


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a job, with every try of its tasks."""

    attempt: int
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a job, and why."""

    seq: int
    at: datetime
    kind: str
    message: str = ""
    actor: str = ""
    task: str | None = None
    attempt: int | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    items: tuple[Event, ...]
    next: int | None = None  # number of the last event here, when there are more


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would happen to a job if it were submitted now."""

    dialect: str
    verdict: str  # now, wait or never
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    job: Mapping[str, Any] = field(default_factory=dict)
    yaml: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFailure:
    job: str
    error: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """What became of a request to stop several jobs."""

    stopped: tuple[str, ...] = ()  # ids of jobs that will end, or had ended
    failed: tuple[StopFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A piece of a log and where it lies in the whole."""

    data: bytes
    start: int
    end: int
    size: int  # of the whole log so far
    complete: bool  # no more bytes will come
    task: str = ""  # whose log it is


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHit:
    offset: int
    text: str
    line_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHits:
    hits: tuple[LogHit, ...] = ()
    next: int | None = None  # offset to go on from


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What the server can promise about the tasks it runs."""

    name: str = ""
    isolation: str = ""  # full, read-only or none
    limits: str = ""  # cgroup v2, cgroup v1 or watched
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    cpu: float = 0.0
    memory: int = 0
    gpus: tuple[int, ...] = ()
    free: Amount = field(default_factory=Amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUse:
    name: str
    used: Amount = field(default_factory=Amount)
    quota: Quota = field(default_factory=Quota)
    user_quota: Quota = field(default_factory=Quota)
    users: Mapping[str, Amount] = field(default_factory=dict)  # what each user of it has in use, if anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    nodes: tuple[Node, ...] = ()
    groups: tuple[GroupUse, ...] = ()
    engine: Engine = field(default_factory=Engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A current problem of the installation."""

    kind: str  # sandbox, database, disk-full, disk-low or files-disk-full
    message: str = ""
    hint: str = ""  # what an admin can do about it
    detail: str = ""  # the error itself, for admins
    blocks_starts: bool = False  # no task starts while it lasts
    warning: bool = False  # everything still works


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    status: str  # ok or degraded
    notes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    name: str
    version: str
    api: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Where tasks are entered by SSH."""

    enabled: bool = False
    host: str | None = None  # None: it does not listen
    port: int | None = None
    trouble: str | None = None  # why it does not listen although it should


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    version: str
    pid: int | None = None
    started_at: datetime | None = None
    home: str | None = None  # told to admins only
    url: str = ""
    jobs: Mapping[str, int] = field(default_factory=dict)  # state -> how many
    queue: int = 0
    engine: Engine = field(default_factory=Engine)
    ssh: Gateway = field(default_factory=Gateway)
    conditions: tuple[Condition, ...] = ()  # current problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    name: str
    admin: bool = False
    email: str = ""
    groups: Mapping[str, bool] = field(default_factory=dict)  # group -> is its admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    token: str = field(repr=False)
    user: str = ""
    expires_at: datetime | None = None
    device: str = field(default="", repr=False)  # for the next login from here: see PeopleCalls.login


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    admin: bool = False
    email: str = ""
    created_at: datetime | None = None
    groups: Mapping[str, bool] = field(default_factory=dict)
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    id: str
    name: str = ""
    user: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    """A public key of one's own."""

    id: str
    title: str = ""
    type: str = ""
    fingerprint: str = ""
    value: str = ""
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Where one is told of what."""

    id: str
    way: str = ""
    address: str = ""  # of webhooks in part
    events: tuple[str, ...] = ()
    created_at: datetime | None = None
    secret: str | None = None  # what its receiver checks signatures with
    problem: str | None = None  # why nothing can be sent there


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that was told, or is to be."""

    id: str
    event: str = ""
    job: str | None = None
    subject: str = ""
    way: str = ""
    address: str = ""
    state: str = ""  # waiting, sending, sent, unconfirmed or failed
    tries: int = 0
    error: str = ""
    created_at: datetime | None = None
    next_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePage:
    items: tuple[Notice, ...]
    next: int | None = None  # `before` of the page after this one


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeTest:
    arrived: bool
    said: str = ""  # what came back


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeSecret:
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCode:
    """What logs a browser in, once."""

    url: str = field(repr=False)
    code: str = field(default="", repr=False)
    user: str = ""
    expires_in: float = 0.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """Something that somebody did to the place."""

    seq: int
    at: datetime | None = None
    user: str = ""  # empty: somebody who was not logged in
    kind: str = ""
    act: str = ""
    subject: str = ""
    address: str = ""
    detail: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    items: tuple[AuditEvent, ...]
    next: int | None = None  # `before` of the page after this one


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token with its secret, shown this once."""

    id: str
    name: str = ""
    user: str = ""
    token: str = field(repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    quota: Quota = field(default_factory=Quota)
    user_quota: Quota = field(default_factory=Quota)
    time_limit: float | None = None  # seconds, for its jobs; None: the admin's default
    members: Mapping[str, bool] = field(default_factory=dict)  # user -> is its admin
    shared_volume: bool = False  # its jobs find a folder that stays at /project/GROUP
    volume_capacity: int | None = None  # GB it is meant to have
    launch_only: bool = True  # jobs of its members in other groups do not see that folder
    home_symlink: bool = True  # /home/jovyan/GROUP leads to it
    hold: str | None = None  # how failed tasks are kept of jobs that do not say: on, 7d, files, files:7d; None: not


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlflow:
    """Where a group's jobs report their experiments. Values are masked for all but admins of the group."""

    tracking_uri: str
    ui_url: str = ""
    tracking_envs: Mapping[str, str] = field(default_factory=dict)
    artifact_envs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A named size of task."""

    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    cpu: float = 1.0
    memory: int = 0
    gpu: int = 0
    cpu_request: float | None = None  # what a machine must have free; None: the limit above
    memory_request: int | None = None
    gpu_resource: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    everyone: bool = False  # else for its groups
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAlias:
    """A name that stands for an image, or for two: one for tasks with GPUs and one for the others."""

    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    kind: str = "both"  # cpu, gpu or both
    url: str = ""
    gpu_url: str = ""  # empty: the same
    pull_secret: str | None = None
    owner: str | None = None  # the group whose admins look after it
    everyone: bool = False  # else for its groups
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """How far the checkout of a git dataset is."""

    commit: str = ""  # what jobs are given; empty: nothing yet
    synced_at: datetime | None = None  # when that was known to be the newest
    error: str = ""  # of the last try; empty: it went well
    error_at: datetime | None = None
    busy: bool = False  # an update is under way


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Something with a name that jobs are given: a folder to mount, or variables."""

    name: str
    path: str = ""
    display_name: str = ""  # empty: the name
    description: str = ""
    read_only: bool = True  # for all but the writable groups
    everyone: bool = False  # else for its groups
    groups: tuple[str, ...] = ()
    writable_groups: tuple[str, ...] = ()  # those that may write whatever read_only says
    per_user: bool = False  # each user gets the folder of their own name in it
    default: bool = False  # mounted when an OpenPAI job asks for its user's default ones
    kind: str = "folder"  # folder, nfs, volume, git or env
    data: Mapping[str, str] = field(default_factory=dict)  # with nfs: server, path; with git: url, branch, secret
    sync: GitState | None = None  # with git


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """Of a dataset of the kind env."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Without its value, which no server shows."""

    name: str
    display_name: str = ""
    kind: str = "opaque"  # for git; or registry, to pull images
    registry_host: str = ""
    username: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    size: int | None = None
    created_at: datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A shared file or an artifact; a folder, where the name ends in a slash."""

    name: str
    size: int = 0
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    items: tuple[File, ...]
    complete: bool = True  # False: there is more
    next: str | None = None  # what to go on after
    left_out: int = 0  # links, devices, names that are no text


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedFiles:
    removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """What was kept of a job's files."""

    job: str
    group: str = ""
    items: tuple[File, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    year: int
    month: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """When a schedule is due."""

    kind: str = "custom"  # inactive, daily, weekly, monthly or custom
    cron: str | None = None  # minute hour day-of-month month day-of-week; only custom goes by it
    timezone: str = ""  # such as Europe/Berlin; empty: the server's


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A job that is submitted again and again."""

    id: str
    name: str
    user: str = ""  # whose its jobs are
    group: str = ""
    recurrence: Recurrence
    timezone: str = ""  # the one it goes by
    overlap: str = "skip"  # or queue, cancel: what a due run does while an earlier job is not finished
    missed: str = "skip"  # or once: what becomes of runs that were due while no server ran
    ends_at: datetime | None = None
    paused: bool = False
    invalid: str | None = None  # why it cannot run, in a word
    message: str = ""
    next_run_at: datetime | None = None
    queued_at: datetime | None = None  # a run was due then, and waits for an earlier job to end
    last_run_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    items: tuple[Schedule, ...]
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail(Schedule):
    job: Mapping[str, Any] = field(default_factory=dict)  # the template, secrets masked
    source: str = ""  # as it was written, secrets masked
    next_runs: tuple[datetime, ...] = ()
    warnings: tuple[str, ...] = ()  # about the job file, right after it was given


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    timezone: str
    times: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one time that a schedule was due, or that somebody asked for."""

    seq: int
    due_at: datetime
    at: datetime
    result: str  # started, skipped, missed or failed
    job: str | None = None
    state: JobState | None = None  # where that job is now
    message: str = ""
    actor: str = ""
