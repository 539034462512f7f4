"""Why a job waits, failed or is slow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.states import JobState
from holdfast.core.verdicts import Confidence, EvidenceKind, Fault, Slowness

from .messages import MessageData
from .resources import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job that has resources another one lacks."""

    job: Annotated[str, "Its id; empty if you may not see it, as are name, user and group."] = ""
    name: str = ""
    user: str = ""
    group: str = ""
    has: Annotated[Amount, "Of the missing resources."] = field(default_factory=Amount)
    since: Annotated[datetime | None, "When it was placed."] = None
    until: Annotated[datetime | None, "The end of its time limit; null: no limit."] = None
    held: Annotated[bool, "It failed and is held for debugging, at most until then."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    kind: Annotated[str, BlockerKind]
    text: str
    text_data: Annotated[MessageData | None, "Id and arguments of `text`; null: it is not a message of the server."] = (
        None
    )
    lacks: Annotated[Amount | None, "How much more would have to be free."] = None
    holders: Annotated[tuple[Holder, ...], "Jobs that have the missing resources, those with the most first."] = ()
    more_holders: Annotated[int, "How many more there are."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A job that is ahead in the queue."""

    job: Annotated[str, "Its id; empty if you may not see it, as are name, user and group."] = ""
    name: str = ""
    user: str = ""
    group: str = ""
    asks: Amount = field(default_factory=Amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    at: Annotated[datetime | None, "The latest start; null: unknown."] = None
    basis: Annotated[str, "What the estimate is based on."] = ""
    basis_data: Annotated[
        MessageData | None, "Id and arguments of `basis`; null: it is not a message of the server."
    ] = None
    likely: Annotated[datetime | None, "The likely start, by how long similar jobs took; null: unknown."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    blockers: Annotated[tuple[Blocker, ...], "All of them; none: it is about to start."] = ()
    ahead: Annotated[tuple[Ahead, ...], "The first of the jobs ahead of it in the queue."] = ()
    ahead_count: Annotated[int, "How many jobs are ahead of it."] = 0
    helps: Annotated[tuple[str, ...], "What would let it start; each was tried against current usage."] = ()
    helps_data: Annotated[tuple[MessageData | None, ...], "Ids and arguments of `helps`."] = ()
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    kind: Annotated[str, EvidenceKind]
    text: Annotated[str, "Lines of a log, or a sentence."]
    text_data: Annotated[MessageData | None, "Id and arguments of `text`; null: it is not a message of the server."] = (
        None
    )
    task: str | None = None
    offset: Annotated[int | None, "Of log lines: where they begin in the task's log."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFrame:
    file: str
    line: int
    function: str = ""
    code: Annotated[str, "The line itself; empty: unknown."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    fault: Annotated[str, Fault]
    title: str
    title_data: Annotated[
        MessageData | None, "Id and arguments of `title`; null: it is not a message of the server."
    ] = None
    explanation: str = ""
    explanation_data: Annotated[
        MessageData | None, "Id and arguments of `explanation`; null: it is not a message of the server."
    ] = None
    confidence: Annotated[str, Confidence] = ""
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[str, ...] = ()
    remedies_data: Annotated[tuple[MessageData | None, ...], "Ids and arguments of `remedies`."] = ()
    task: Annotated[str | None, "The task whose failure was the cause."] = None
    attempt: Annotated[int, "The job's attempt, from 0."] = 0
    followers: Annotated[tuple[str, ...], "Tasks that failed because of it."] = ()
    frame: Annotated[CodeFrame | None, "Where in the user's own code."] = None
    rule: Annotated[str, "The rule that found it."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: Annotated[str, Slowness]
    text: str
    text_data: Annotated[MessageData | None, "Id and arguments of `text`; null: it is not a message of the server."] = (
        None
    )
    remedy: str = ""
    remedy_data: Annotated[
        MessageData | None, "Id and arguments of `remedy`; null: it is not a message of the server."
    ] = None
    tasks: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Resources that tasks requested and used, all tasks together; null: not measured."""

    tasks: int = 0
    seconds: Annotated[float, "Run time of the tasks."] = 0.0
    cpu_asked: Annotated[float, "Cores."] = 0.0
    cpu_used: Annotated[float | None, "Cores, on average; null also if it ran for less than 10 seconds."] = None
    memory_asked: int = 0
    memory_peak: Annotated[int | None, "Bytes: the sum of each task's peak."] = None
    gpu_asked: int = 0
    gpu_used: Annotated[float | None, "GPUs: 2 GPUs at 50 % are 1; null also as for cores."] = None
    gpu_memory_peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    whole: Used = field(default_factory=Used)
    roles: Mapping[str, Used] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    advice_data: Annotated[tuple[MessageData | None, ...], "Ids and arguments of `advice`."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    job: Annotated[str, "The job's id."]
    name: str = ""
    state: Annotated[str, JobState] = ""
    message: str = ""
    message_data: Annotated[
        MessageData | None, "Id and arguments of `message`; null: it is not a message of the server."
    ] = None
    verdict: Annotated[
        Literal["waiting", "failed", "debugger", "slow", "fine"],
        "The part to read first; fine: nothing stands out.",
    ] = "fine"
    waiting: Annotated[Wait | None, "Null: nothing of it waits."] = None
    failure: Annotated[Failure | None, "Null: it did not fail. With the fault unknown, no cause was found."] = None
    slow: Annotated[tuple[Finding, ...], "What slows it down, and what it requests but does not use."] = ()
    efficiency: Annotated[Efficiency | None, "Null: nothing was measured yet."] = None
    debugger: Annotated[str | None, "Where a debugger waits, such as train.py:42 in worker-3."] = None
