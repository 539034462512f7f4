"""Why a job waits, failed or is slow, as typed records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from .models import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job that has what is missing. All names are empty where one may not see it."""

    job: str = ""
    name: str = ""
    user: str = ""
    group: str = ""
    has: Amount = field(default_factory=Amount)
    since: datetime | None = None
    until: datetime | None = None  # at the longest, by its time limit
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    kind: str  # machines, fragmented, ports, group-quota, user-quota, queue, image, dataset, retry, impossible
    text: str
    lacks: Amount | None = None
    holders: tuple[Holder, ...] = ()
    more_holders: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A job that goes before it in the queue. All names are empty where one may not see it."""

    job: str = ""
    name: str = ""
    user: str = ""
    group: str = ""
    asks: Amount = field(default_factory=Amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    at: datetime | None = None  # at the latest; None: cannot be told
    basis: str = ""
    likely: datetime | None = None  # going by how long such jobs took before


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    blockers: tuple[Blocker, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    ahead_count: int = 0
    helps: tuple[str, ...] = ()
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    kind: str  # log, exit, memory, kernel, event, metrics
    text: str
    task: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFrame:
    file: str
    line: int
    function: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    fault: str
    title: str
    explanation: str = ""
    confidence: str = ""  # certain, likely, possible
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[str, ...] = ()
    task: str | None = None
    attempt: int = 0
    followers: tuple[str, ...] = ()
    frame: CodeFrame | None = None
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: str
    text: str
    remedy: str = ""
    tasks: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Of tasks: what was asked for and what was used. None: was not measured."""

    tasks: int = 0
    seconds: float = 0.0
    cpu_asked: float = 0.0
    cpu_used: float | None = None
    memory_asked: int = 0
    memory_peak: int | None = None
    gpu_asked: int = 0
    gpu_used: float | None = None
    gpu_memory_peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    whole: Used = field(default_factory=Used)
    roles: Mapping[str, Used] = field(default_factory=dict)
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    job: str
    name: str = ""
    state: str = ""
    message: str = ""
    verdict: str = "fine"  # waiting, failed, debugger, slow, fine: what to read first
    waiting: Wait | None = None
    failure: Failure | None = None
    slow: tuple[Finding, ...] = ()
    efficiency: Efficiency | None = None
    debugger: str | None = None  # where one waits for somebody: train.py:42 in worker-3
