"""What keeps a job from starting: who holds what it lacks, who goes first, what would help, when it may start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .placement import Amount


class BlockerKind(StrEnum):
    PLATFORM = "platform"  # no job starts now: see conditions
    MACHINES = "machines"  # too little is free
    FRAGMENTED = "fragmented"  # enough in all, on no machine enough
    PORTS = "ports"
    GROUP_QUOTA = "group-quota"
    USER_QUOTA = "user-quota"
    QUEUE = "queue"  # others go first
    IMAGE = "image"
    DATASET = "dataset"
    RETRY = "retry"  # it waits for its next try
    SCHEDULE = "schedule"
    IMPOSSIBLE = "impossible"  # nothing that others give back would do


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a job that runs or waits."""

    name: str
    user: str
    group: str
    since: datetime | None = None  # it has had its place
    until: datetime | None = None  # it has its place at the longest; None: has none, or no time limit
    held: bool = False


About = Callable[[str], Known | None]  # a job's id -> what is known of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job that has what is missing. Names are empty where the asker may not see that job."""

    job_id: str
    name: str
    user: str
    group: str
    has: Amount
    since: datetime | None = None
    until: datetime | None = None  # at the latest, by its time limit
    held: bool = False  # it failed, and is kept for debugging


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    kind: BlockerKind
    text: str
    lacks: Amount | None = None  # how much more would have to be free
    holders: tuple[Holder, ...] = ()  # those that have most of it first
    more_holders: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A job that goes before it in the queue. Names are empty where the asker may not see it."""

    job_id: str
    name: str
    user: str
    group: str
    asks: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    at: datetime | None  # None: cannot be told
    basis: str  # what it rests on, in a sentence
    likely: datetime | None = None  # going by how long such jobs took before; None: that says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """All that keeps a job waiting, the most telling first."""

    blockers: tuple[Blocker, ...] = ()
    ahead: tuple[Ahead, ...] = ()  # the first of them
    ahead_count: int = 0
    helps: tuple[str, ...] = ()  # each a sentence: ask for less of X, wait for job Y
    estimate: Estimate | None = None


def show_instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
