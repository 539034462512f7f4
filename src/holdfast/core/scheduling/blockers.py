"""Why a job does not start: blockers, jobs ahead, suggestions and the estimated start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .placement import ResourceAmount


class BlockerKind(StrEnum):
    PLATFORM = "platform"  # no job starts now: see conditions
    CAPACITY = "machines"  # too little is free
    FRAGMENTED = "fragmented"  # enough in total, but not on one node
    UNAVAILABLE = "unavailable"  # the nodes that could run it are not available
    PORTS = "ports"
    ENGINE_QUEUE = "engine-queue"  # too many tasks wait in the queue of its engine
    ENGINE_WAIT = "engine-wait"  # it waits in the queue of its engine, and starts by itself
    ENGINE_ACTION = "engine-action"  # it waits there until a user or an admin of the engine's system acts
    GROUP_QUOTA = "group-quota"
    USER_QUOTA = "user-quota"
    QUEUE = "queue"  # other jobs are ahead
    IMAGE = "image"
    DATASET = "dataset"
    RETRY = "retry"  # waiting for its retry
    SCHEDULE = "schedule"
    IMPOSSIBLE = "impossible"  # no release of resources would help


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJob:
    """A running or waiting job."""

    name: str
    user: str
    group: str
    since: datetime | None = None  # placed since
    until: datetime | None = None  # latest end; None: not placed, or no time limit
    held: bool = False


ActiveJobLookup = Callable[[str], ActiveJob | None]  # job id -> its data


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceHolder:
    """A job that uses the missing resources. Names are empty if the user cannot see that job."""

    job_id: str
    name: str
    user: str
    group: str
    has: ResourceAmount
    since: datetime | None = None
    until: datetime | None = None  # at the latest, by its time limit
    held: bool = False  # it failed, and is on hold
    outside: str = ""  # engine whose system has the job; then it is no job of this server, and `user` is that system's
    job_count: int = 1  # with `outside`: jobs of that user


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    kind: BlockerKind
    text: str
    lacks: ResourceAmount | None = None  # amount that is missing
    holders: tuple[ResourceHolder, ...] = ()  # largest usage first
    more_holders: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAhead:
    """A job ahead in the queue. Names are empty if the user cannot see it."""

    job_id: str
    name: str
    user: str
    group: str
    asks: ResourceAmount


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    at: datetime | None  # None: unknown
    basis: str  # the basis of the estimate, in a sentence
    likely: datetime | None = None  # based on earlier jobs; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplanation:
    """Why a job waits, most important first."""

    blockers: tuple[Blocker, ...] = ()
    ahead: tuple[JobAhead, ...] = ()  # the first of them
    ahead_count: int = 0
    helps: tuple[str, ...] = ()  # sentences: request less of X, wait for job Y
    estimate: Estimate | None = None


def format_utc_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
