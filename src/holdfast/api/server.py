"""Health, version, status and capacity of the server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from holdfast.core.conditions import ConditionKind

from .resources import Quota, ResourceAmount


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Guarantees of the engine."""

    name: str = ""
    isolation: Annotated[str, "full, read-only or none."] = ""
    limits: Annotated[str, "cgroup v2, cgroup v1, watched or none."] = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    cpu: float = 0.0
    memory: int = 0
    gpus: tuple[int, ...] = ()
    free: ResourceAmount = field(default_factory=ResourceAmount)
    engines: Annotated[
        Mapping[str, str],
        "Engines that run tasks on it; the value says why one cannot start any now. Empty: the only one.",
    ] = field(default_factory=dict)
    queue_limit: Annotated[
        int | None, "Max tasks in the queue of an engine that places tasks itself; null: an ordinary node."
    ] = None
    waiting: Annotated[int, "Tasks in that queue."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsage:
    name: str
    used: ResourceAmount = field(default_factory=ResourceAmount)
    quota: Quota = field(default_factory=Quota)
    user_quota: Quota = field(default_factory=Quota)
    users: Annotated[Mapping[str, ResourceAmount], "Usage of each user."] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    nodes: tuple[Node, ...] = ()
    groups: tuple[GroupUsage, ...] = ()
    engine: Engine = field(default_factory=Engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A current problem of the installation."""

    kind: Annotated[str, ConditionKind]
    message: str = ""
    hint: Annotated[str, "How an admin can fix it."] = ""
    detail: Annotated[str, "Error details; empty unless you are an admin."] = ""
    blocks_starts: Annotated[bool, "No tasks start; jobs stay Pending."] = False
    warning: Annotated[bool, "Everything still works."] = False
    engine: Annotated[str, "The engine that has the problem, if there are several."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    status: Literal["ok", "degraded"]
    notes: tuple[str, ...] = ()
    conditions: Annotated[tuple[Condition, ...], "Current problems of the installation."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    name: str
    version: str
    api: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The SSH gateway into tasks."""

    enabled: bool = False
    host: Annotated[str | None, "Public address; null: not running."] = None
    port: int | None = None
    trouble: Annotated[str | None, "Why it is not running although it is enabled."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    version: str
    pid: int
    started_at: datetime
    url: str = ""
    home: Annotated[str | None, "State folder; null unless you are an admin."] = None
    jobs: Annotated[Mapping[str, int], "State -> number of jobs."] = field(default_factory=dict)
    queue: int = 0
    engine: Annotated[Engine, "The default engine."] = field(default_factory=Engine)
    engines: Annotated[tuple[str, ...], "Names of the engines that jobs can choose, the default first."] = ()
    conditions: Annotated[tuple[Condition, ...], "Current problems of the installation."] = ()
    ssh: Gateway = field(default_factory=Gateway)
