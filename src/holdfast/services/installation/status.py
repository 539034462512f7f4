"""The installation: health, capacity and usage."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, text

from holdfast import __version__
from holdfast.core.access import Actor
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import msg
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import GroupUsage, JobUsage, NodeUsage, ResourceAmount
from holdfast.core.states import JobState
from holdfast.engines.base import EngineHealth
from holdfast.engines.engine_set import EngineSet
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.store.database import Store
from holdfast.store.errors import StoreError

from ..control import Control
from ..permissions import require_admin

DISK_TIMEOUT = 2.0  # seconds
DATABASE_DOWN = Condition(
    kind=ConditionKind.DATABASE,
    message=msg("The database is not responding."),
    hint=msg("See the server log for the error."),
)


@dataclass(frozen=True, slots=True)
class Health:
    conditions: tuple[Condition, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return all(condition.warning for condition in self.conditions)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(condition.message for condition in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    nodes: tuple[NodeUsage, ...]
    groups: tuple[GroupUsage, ...]
    engine: EngineHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    version: str
    pid: int
    started_at: datetime
    home: Path | None  # admins only
    jobs: dict[str, int]  # state -> how many, of those that are not final
    queue: int
    engine: EngineHealth
    engines: tuple[str, ...] = ()  # names of those that jobs can choose, the default first
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    path: str
    free: int | None  # bytes; None: it does not respond
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDetails:
    """Details of the installation for admins."""

    status: ServerStatus
    health: Health
    nodes: tuple[NodeUsage, ...]
    database: str
    python: str
    disks: tuple[DiskUsage, ...]


class Installation:
    def __init__(
        self,
        store: Store,
        engine: EngineSet,
        control: Control,
        home: Path,
        *,
        shared: Path,
        clock: Callable[[], datetime],
    ) -> None:
        self._shared = shared
        self._hang_guard = HangGuard("disks")
        self._store = store
        self.engine = engine
        self._control = control
        self._home = home
        self._started_at = clock()

    async def check_health(self) -> Health:
        """Return whether the components respond; no details, because it needs no login."""
        try:
            await self._store.read(_ping_database)
        except StoreError:
            others = (each for each in self._control.list_conditions() if each.kind is not ConditionKind.DATABASE)
            return Health((DATABASE_DOWN, *others))
        return Health(self._control.list_conditions())

    async def get_capacity(self, actor: Actor) -> Capacity:
        """Return all nodes, and the groups that the actor can see."""
        nodes, groups = self._control.get_usage()
        mine = tuple(use for use in groups if _can_see_group(actor, use.group))
        return Capacity(nodes=tuple(nodes), groups=mine, engine=self.engine.get_health())

    async def get_group_usage(self, actor: Actor, group: Group) -> GroupUsage:
        """Return the usage of a group; zero if the actor cannot see it."""
        none = GroupUsage(group=group.name, used=ResourceAmount(), quota=group.quota, user_quota=group.user_quota)
        return next((use for use in (await self.get_capacity(actor)).groups if use.group == group.name), none)

    async def inspect_server(self, actor: Actor) -> ServerDetails:
        """Return details of the installation; admins only."""
        require_admin(actor, msg("Only admins can see the server's status"))
        return ServerDetails(
            status=await self.get_status(actor),
            health=await self.check_health(),
            nodes=tuple(self._control.get_usage()[0]),
            database=self._store.kind,
            python=platform.python_version(),
            disks=await self.read_disks(),
        )

    async def read_disks(self) -> tuple[DiskUsage, ...]:
        """Return the disks of the server's folders, without a permission check."""
        return tuple([await self._read_disk(folder) for folder in dict.fromkeys((self._home, self._shared))])

    async def _read_disk(self, folder: Path) -> DiskUsage:
        """Read disk usage with a timeout: the folder may be on a file server that is down."""
        try:
            found = await self._hang_guard.run_with_timeout(lambda: shutil.disk_usage(folder), DISK_TIMEOUT)
        except (NotResponding, OSError):
            return DiskUsage(path=str(folder), free=None, total=None)
        return DiskUsage(path=str(folder), free=found.free, total=found.total)

    async def get_job_usage_by_group(self, actor: Actor) -> Mapping[str, Sequence[JobUsage]]:
        """Return group -> jobs with resources in use, for the groups that the actor can see."""
        found: dict[str, list[JobUsage]] = {}
        for use in self._control.list_usage_by_job():
            if _can_see_group(actor, use.group):
                found.setdefault(use.group, []).append(use)
        return found

    async def get_status(self, actor: Actor) -> ServerStatus:
        counts = self._control.count_jobs_by_state()
        shown = (JobState.PENDING, JobState.PREPARING, JobState.RUNNING, JobState.HELD)
        return ServerStatus(
            version=__version__,
            pid=os.getpid(),
            started_at=self._started_at,
            home=self._home if actor.admin else None,
            jobs={state.value: counts.get(state, 0) for state in shown},
            queue=counts.get(JobState.PENDING, 0),
            engine=self.engine.get_health(),
            engines=tuple(self.engine.names),
            conditions=self._control.list_conditions(),
        )


def _can_see_group(actor: Actor, group: str) -> bool:
    return actor.admin or actor.can_read_all_jobs or group in actor.groups


def _ping_database(conn: Connection) -> None:
    conn.execute(text("SELECT 1"))
