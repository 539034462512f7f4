"""Why a job is pending, failed or slow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.states import JobState
from holdfast.core.verdicts import Confidence, EvidenceKind, Fault, FindingKind

from .messages import MessageData
from .resources import ResourceAmount


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceHolder:
    """A job that uses resources another job needs."""

    job: Annotated[str, "Job id; empty, like name, user and group, if you cannot access it."] = ""
    name: str = ""
    user: str = ""
    group: str = ""
    has: Annotated[ResourceAmount, "Amount of the missing resources it uses."] = field(default_factory=ResourceAmount)
    since: Annotated[datetime | None, "When it got its resources."] = None
    until: Annotated[datetime | None, "The end of its time limit; null: no limit."] = None
    held: Annotated[bool, "It failed and is held until then."] = False
    outside: Annotated[
        str, "Engine whose system runs these jobs of `user`, if they are not jobs of this server: slurm."
    ] = ""
    job_count: Annotated[int, "With `outside`: number of that user's jobs."] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    kind: Annotated[str, BlockerKind]
    text: str
    text_data: Annotated[MessageData | None, "Id and arguments of `text`; null: not translatable."] = None
    lacks: Annotated[ResourceAmount | None, "Missing amount."] = None
    holders: Annotated[tuple[ResourceHolder, ...], "Jobs that use the missing resources, largest first."] = ()
    more_holders: Annotated[int, "Number of jobs not listed."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAhead:
    """A job ahead in the queue."""

    job: Annotated[str, "Job id; empty, like name, user and group, if you cannot access it."] = ""
    name: str = ""
    user: str = ""
    group: str = ""
    asks: ResourceAmount = field(default_factory=ResourceAmount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    at: Annotated[datetime | None, "Latest start; null: unknown."] = None
    basis: Annotated[str, "Basis of the estimate."] = ""
    basis_data: Annotated[MessageData | None, "Id and arguments of `basis`; null: not translatable."] = None
    likely: Annotated[datetime | None, "Likely start, based on similar jobs; null: unknown."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplanation:
    blockers: Annotated[tuple[Blocker, ...], "All blockers; empty: about to start."] = ()
    ahead: Annotated[tuple[JobAhead, ...], "First jobs ahead of it in the queue."] = ()
    ahead_count: Annotated[int, "Number of jobs ahead of it."] = 0
    helps: Annotated[tuple[str, ...], "Changes that would let it start, tested against current usage."] = ()
    helps_data: Annotated[tuple[MessageData | None, ...], "Ids and arguments of `helps`."] = ()
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    kind: Annotated[str, EvidenceKind]
    text: Annotated[str, "Log lines, or a sentence."]
    text_data: Annotated[MessageData | None, "Id and arguments of `text`; null: not translatable."] = None
    task: str | None = None
    offset: Annotated[int | None, "Offset of log lines in the task's log."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFrame:
    file: str
    line: int
    function: str = ""
    code: Annotated[str, "Source line; empty: unknown."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    fault: Annotated[str, Fault]
    title: str
    title_data: Annotated[MessageData | None, "Id and arguments of `title`; null: not translatable."] = None
    explanation: str = ""
    explanation_data: Annotated[MessageData | None, "Id and arguments of `explanation`; null: not translatable."] = None
    confidence: Annotated[str, Confidence] = ""
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[str, ...] = ()
    remedies_data: Annotated[tuple[MessageData | None, ...], "Ids and arguments of `remedies`."] = ()
    task: Annotated[str | None, "Task that caused the failure."] = None
    attempt: Annotated[int, "The job's attempt, from 0."] = 0
    followers: Annotated[tuple[str, ...], "Secondary failures: tasks that failed because of it."] = ()
    frame: Annotated[CodeFrame | None, "Location in the user's code."] = None
    rule: Annotated[str, "Diagnosis rule that matched."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: Annotated[str, FindingKind]
    text: str
    text_data: Annotated[MessageData | None, "Id and arguments of `text`; null: not translatable."] = None
    remedy: str = ""
    remedy_data: Annotated[MessageData | None, "Id and arguments of `remedy`; null: not translatable."] = None
    tasks: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """Requested and used resources, total of all tasks; null: not measured."""

    tasks: int = 0
    seconds: Annotated[float, "Total run time of the tasks."] = 0.0
    cpu_asked: Annotated[float, "Cores."] = 0.0
    cpu_used: Annotated[float | None, "Cores on average; also null if it ran for less than 10 seconds."] = None
    memory_asked: int = 0
    memory_peak: Annotated[int | None, "Bytes: the sum of each task's peak."] = None
    gpu_asked: int = 0
    gpu_used: Annotated[float | None, "GPUs on average: 2 GPUs at 50 % are 1; null as for cores."] = None
    gpu_memory_peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    whole: ResourceUsage = field(default_factory=ResourceUsage)
    roles: Mapping[str, ResourceUsage] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    advice_data: Annotated[tuple[MessageData | None, ...], "Ids and arguments of `advice`."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    job: Annotated[str, "The job's id."]
    name: str = ""
    state: Annotated[str, JobState] = ""
    message: str = ""
    message_data: Annotated[MessageData | None, "Id and arguments of `message`; null: not translatable."] = None
    verdict: Annotated[
        Literal["waiting", "failed", "debugger", "slow", "fine"], "Most important part; fine: no problems found."
    ] = "fine"
    waiting: Annotated[WaitExplanation | None, "Null: not pending."] = None
    failure: Annotated[Failure | None, "Null: it did not fail. Fault unknown: no cause was found."] = None
    slow: Annotated[tuple[Finding, ...], "Causes of slowness, and unused requests."] = ()
    efficiency: Annotated[Efficiency | None, "Null: no samples yet."] = None
    debugger: Annotated[str | None, "Where a debugger waits, such as train.py:42 in worker-3."] = None
