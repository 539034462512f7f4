"""Jobs, tasks, attempts, events and holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from holdfast.core.slurm_options import OptionSource
from holdfast.core.states import JobState
from holdfast.core.verdicts import Fault

from .errors import ErrorBody
from .inside import Debugger, SshCommand
from .limits import Limits, Name
from .messages import MessageData
from .resources import ResourceAmount


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a job or a task ended."""

    kind: Annotated[
        str, "succeeded, user-error, out-of-memory, time-limit, refused, platform, cancelled, attempt-over."
    ]
    code: Annotated[int | None, "The program's own exit code."] = None
    signal: int | None = None
    message: str = ""
    behaviour: Annotated[str, "Expected result of a retry."] = ""
    cause: Annotated[str, "Cause in one word, if known; else empty."] = ""
    hint: Annotated[str, "What to change if a retry would fail again; else empty."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    id: str
    name: str
    user: str = ""
    group: str = ""
    state: JobState
    message: Annotated[str, "Why it is in this state."] = ""
    submitted_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    exit_kind: str | None = None
    attempt: Annotated[int, "The current attempt, from 0."] = 0
    task_count: int = 1
    resources: Annotated[ResourceAmount, "Total of all tasks."] = field(default_factory=ResourceAmount)
    priority: int = 0
    dialect: str = ""
    tags: tuple[str, ...] = ()
    rerun_of: str | None = None
    schedule: Annotated[str | None, "The id of the schedule that submitted it."] = None
    stopping: Annotated[bool, "A stop was requested, but it has not ended yet."] = False
    held_until: Annotated[datetime | None, "When the last hold expires; null: not held."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob(JobSummary):
    """A row of the job list."""

    debugger: Annotated[str | None, "Where a debugger waits, such as train.py:42 in worker-3."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob(JobSummary):
    warnings: Annotated[tuple[str, ...], "About the job file."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHold:
    """A failed task that is or was held."""

    since: datetime
    until: datetime
    keep: Annotated[Literal["all", "files"], "all: files, processes, ports and resources; files: only files."] = "all"
    ended: Annotated[bool, "All its processes have ended."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask(TaskHold):
    task: Annotated[str, "Such as worker-0."]
    latest: Annotated[datetime, "Latest time the hold can be extended to."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The held tasks of a job."""

    job: Annotated[str, "The job's id."]
    tasks: Annotated[tuple[HeldTask, ...], "Held tasks."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedJob(JobSummary):
    released: Annotated[tuple[str, ...], "Released tasks."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One try of one task."""

    task: Annotated[str, "Such as worker-0."]
    role: str = ""
    index: int = 0
    attempt: Annotated[int, "The job's attempt, from 0."] = 0
    number: Annotated[int, "The try of this task within that attempt, from 0."] = 0
    attempt_id: str = ""
    state: str
    engine: Annotated[str, "The engine that runs it; empty: not placed yet."] = ""
    node: str | None = None
    host: Annotated[str, "The machine that runs it, if the node stands for several; empty: the node itself."] = ""
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    placed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit: Annotated[Exit | None, "Exit of its command."] = None
    held: Annotated[TaskHold | None, "Hold of the task; null: never held."] = None
    logs: Literal["kept", "expired", "none"] = "none"
    logs_expired_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    user: int = 0
    platform: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    actor: str
    at: datetime
    why: Annotated[str, "Reason, if it was not requested by a user; else empty."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSummary:
    """Summary of why a job failed; details: `GET /jobs/{ref}/why`."""

    fault: Annotated[str, Fault]
    title: str
    task: Annotated[str | None, "Task that caused the failure."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOption:
    """An option that the tasks of a role get in Slurm."""

    role: str
    name: Annotated[str, "Such as partition."]
    value: str
    source: Annotated[str, OptionSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobSummary):
    """Details of a job, with the tasks of its current attempt."""

    job: Annotated[Mapping[str, Any], "The job in canonical form; secrets are masked."] = field(default_factory=dict)
    description: str = ""
    exit: Exit | None = None
    failure: Annotated[FailureSummary | None, "Of a failed job; set shortly after its end."] = None
    retries: Retries = field(default_factory=Retries)
    retry_at: datetime | None = None
    time_limit: Annotated[float | None, "Seconds per attempt; null: no limit."] = None
    stop: StopRequest | None = None
    tasks: tuple[Task, ...] = ()
    decided_by: Annotated[str | None, "Task that decided the result of this attempt; null: no single task."] = None
    waiting: Annotated[tuple[str, ...] | None, "Why it is pending; null: it is not."] = None
    isolation: Literal["full", "read-only", "none"] = "none"
    slurm: Annotated[tuple[SlurmOption, ...], "Options in Slurm; empty: another engine, or it has ended."] = ()
    debuggers: Annotated[tuple[Debugger, ...], "Debuggers in its tasks, waiting ones first."] = ()
    ssh: Annotated[tuple[SshCommand, ...], "SSH commands of running and held tasks, if you have shell access."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a job, with every try of its tasks."""

    attempt: int
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a job."""

    seq: int
    at: datetime
    kind: str
    message: str = ""
    message_data: Annotated[MessageData | None, "Id and arguments of `message`; null: not translatable."] = None
    actor: str = ""
    task: str | None = None
    attempt: int | None = None
    state: Annotated[str, JobState] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    items: tuple[Event, ...]
    next: Annotated[int | None, "`after` of the next page; null: no more events yet."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would happen to a job if it were submitted now."""

    dialect: str
    job: Mapping[str, Any] = field(default_factory=dict)
    yaml: str = ""
    warnings: tuple[str, ...] = ()
    verdict: Literal["now", "wait", "never"]
    reasons: tuple[str, ...] = ()
    slurm: Annotated[tuple[SlurmOption, ...], "Options that its tasks would get in Slurm; empty: another engine."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFailure:
    job: str
    error: ErrorBody = field(default_factory=ErrorBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """The result of a request to stop several jobs."""

    stopped: Annotated[tuple[str, ...], "Ids of jobs that are stopping or had already ended."] = ()
    failed: tuple[StopFailure, ...] = ()


class StopJobsRequest(TypedDict):
    jobs: Annotated[Sequence[str], "Ids or names.", Limits(min_length=1, max_length=1000)]


_Duration = Annotated[str, Limits(max_length=100)]
HoldChange = TypedDict(
    "HoldChange",
    {
        "until": Annotated[str | None, "Hold until this time.", Limits(max_length=100)],
        "for": Annotated[_Duration | float | None, "Extend the hold by 3d, 12h, or seconds."],
        "keep": Annotated[Literal["files"] | None, "files: end processes and free their resources."],
        "task": Annotated[Name | None, "Such as worker-0. Default: all held tasks."],
    },
    total=False,
)
