"""The place itself: whether it is well, what it has, and what is in use."""

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
from holdfast.core.access import Actor, Verb, may
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.errors import Forbidden
from holdfast.core.messages import msg
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Amount, GroupUse, JobUse, NodeUse
from holdfast.core.states import JobState
from holdfast.engines.base import Engine, EngineHealth
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.store.database import Store
from holdfast.store.errors import StoreError

from ..control import Control

DISK_TIMEOUT = 2.0  # seconds
NO_DATABASE = Condition(
    kind=ConditionKind.DATABASE,
    message=msg("The database does not answer."),
    hint=msg("See the server's log for its error."),
)


@dataclass(frozen=True, slots=True)
class Health:
    conditions: tuple[Condition, ...] = ()

    @property
    def well(self) -> bool:
        return all(condition.warning for condition in self.conditions)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(condition.message for condition in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    nodes: tuple[NodeUse, ...]
    groups: tuple[GroupUse, ...]
    engine: EngineHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    version: str
    pid: int
    started_at: datetime
    home: Path | None  # admins alone are told
    jobs: dict[str, int]  # state -> how many, of those that are not final
    queue: int
    engine: EngineHealth
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    path: str
    free: int | None  # bytes; None: it does not answer
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What an admin wants to know of the place."""

    status: Status
    health: Health
    nodes: tuple[NodeUse, ...]
    database: str
    python: str
    disks: tuple[Disk, ...]


class Place:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        control: Control,
        home: Path,
        *,
        shared: Path,
        clock: Callable[[], datetime],
    ) -> None:
        self._shared = shared
        self._reach = HangGuard("disks")
        self._store = store
        self.engine = engine
        self._control = control
        self._home = home
        self._started_at = clock()

    async def health(self) -> Health:
        """For anyone, without login: so it says no more than whether the parts answer."""
        try:
            await self._store.read(_ping)
        except StoreError:
            others = (each for each in self._control.conditions() if each.kind is not ConditionKind.DATABASE)
            return Health((NO_DATABASE, *others))
        return Health(self._control.conditions())

    async def capacity(self, actor: Actor) -> Capacity:
        """Machines are the same for all; of groups one sees one's own, unless everybody reads everything."""
        nodes, groups = self._control.use()
        mine = tuple(use for use in groups if _shows(actor, use.group))
        return Capacity(nodes=tuple(nodes), groups=mine, engine=self.engine.health())

    async def use_of(self, actor: Actor, group: Group) -> GroupUse:
        """Nothing in use, where the actor does not see it."""
        none = GroupUse(group=group.name, used=Amount(), quota=group.quota, user_quota=group.user_quota)
        return next((use for use in (await self.capacity(actor)).groups if use.group == group.name), none)

    async def inspect(self, actor: Actor) -> Inspection:
        """For admins."""
        if not may(actor, Verb.MANAGE_PLACE):
            raise Forbidden(msg("Only admins see how the place is"))
        return Inspection(
            status=await self.status(actor),
            health=await self.health(),
            nodes=tuple(self._control.use()[0]),
            database=self._store.kind,
            python=platform.python_version(),
            disks=await self.disks(),
        )

    async def disks(self) -> tuple[Disk, ...]:
        """Where the server keeps its files. Asks for no permission."""
        return tuple([await self._disk(folder) for folder in dict.fromkeys((self._home, self._shared))])

    async def _disk(self, folder: Path) -> Disk:
        """It may lie on a file server that is down."""
        try:
            found = await self._reach.run(lambda: shutil.disk_usage(folder), DISK_TIMEOUT)
        except (NotResponding, OSError):
            return Disk(path=str(folder), free=None, total=None)
        return Disk(path=str(folder), free=found.free, total=found.total)

    async def jobs_in_use(self, actor: Actor) -> Mapping[str, Sequence[JobUse]]:
        """Group -> its jobs that have something in use; of the groups whose use one sees."""
        found: dict[str, list[JobUse]] = {}
        for use in self._control.use_by_jobs():
            if _shows(actor, use.group):
                found.setdefault(use.group, []).append(use)
        return found

    async def status(self, actor: Actor) -> Status:
        counts = self._control.counts()
        shown = (JobState.PENDING, JobState.PREPARING, JobState.RUNNING, JobState.HELD)
        return Status(
            version=__version__,
            pid=os.getpid(),
            started_at=self._started_at,
            home=self._home if actor.admin else None,
            jobs={state.value: counts.get(state, 0) for state in shown},
            queue=counts.get(JobState.PENDING, 0),
            engine=self.engine.health(),
            conditions=self._control.conditions(),
        )


def _shows(actor: Actor, group: str) -> bool:
    return actor.admin or actor.reads_all or group in actor.groups


def _ping(conn: Connection) -> None:
    conn.execute(text("SELECT 1"))
