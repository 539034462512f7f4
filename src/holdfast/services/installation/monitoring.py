"""How everything stands at one moment, for whoever watches the place from outside: jobs, tasks, machines, quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.core.access import Actor, Verb, may
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.errors import Forbidden
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import Current, GpuState
from holdfast.core.notifications import NotificationState
from holdfast.core.scheduling.placement import GroupUse, NodeUse
from holdfast.engines.base import Engine, WatchesGpus
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.notifications import records as notifications

from ..control import Control
from ..metrics.service import Metrics
from .status import Disk, Health, Place

Running = tuple[JobSnapshot, TaskAttempt, Current]  # a task, with its newest figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    at: datetime
    jobs: Sequence[JobSnapshot]  # that are not final
    totals: Mapping[str, int]  # since the server started, see Control.totals
    nodes: Sequence[NodeUse]
    groups: Sequence[GroupUse]
    running: Sequence[Running] = ()  # that have been looked at
    gpus: Mapping[str, Sequence[GpuState]] = field(default_factory=dict)  # of each machine that tells
    disks: Sequence[Disk] = ()
    notifications: Mapping[NotificationState, int] = field(default_factory=dict)  # how many
    health: Health = field(default_factory=Health)


class Monitoring:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        control: Control,
        place: Place,
        metrics: Metrics,
        *,
        is_open: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self.is_open = is_open  # to anybody, without login
        self._store = store
        self._engine = engine
        self._control = control
        self._place = place
        self._metrics = metrics
        self._clock = clock

    async def standing(self, actor: Actor | None) -> Standing:
        """`actor`: None where nobody logged in."""
        if not self.is_open and (actor is None or not may(actor, Verb.MANAGE_PLACE)):
            raise Forbidden(
                msg("Only admins read how everything stands"),
                hint=msg("Use an admin's token, or let everybody read it with the setting metrics.open."),
            )
        nodes, groups = self._control.use()
        return Standing(
            at=self._clock(),
            jobs=self._control.snapshots(),
            totals=self._control.totals(),
            nodes=nodes,
            groups=groups,
            running=tuple(self._metrics.running()),
            gpus=await self._gpus(),
            disks=await self._place.disks(),
            notifications=await self._notifications(),
            health=await self._place.health(),
        )

    async def _gpus(self) -> Mapping[str, Sequence[GpuState]]:
        return await self._engine.gpus() if self._metrics.enabled and isinstance(self._engine, WatchesGpus) else {}

    async def _notifications(self) -> Mapping[NotificationState, int]:
        """A database that is away is told by `well`; the rest can still be told."""
        try:
            return await self._store.read(notifications.count_by_state)
        except StoreError:
            return {}
