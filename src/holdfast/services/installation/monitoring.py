"""A snapshot of jobs, tasks, nodes and quotas for external monitoring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.errors import Forbidden
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import CurrentMetrics, GpuState
from holdfast.core.notifications import NotificationState
from holdfast.core.scheduling.placement import GroupUsage, NodeUsage
from holdfast.engines.engine_set import EngineSet
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.notifications import records as notifications

from ..control import Control
from ..metrics.service import Metrics
from .status import DiskUsage, Health, Installation

RunningTask = tuple[JobSnapshot, TaskAttempt, CurrentMetrics]  # a task with its newest sample


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringSnapshot:
    at: datetime
    jobs: Sequence[JobSnapshot]  # that are not final
    totals: Mapping[str, int]  # since the server started, see Control.get_job_totals
    nodes: Sequence[NodeUsage]
    groups: Sequence[GroupUsage]
    running: Sequence[RunningTask] = ()  # that have a sample
    gpus: Mapping[str, Sequence[GpuState]] = field(default_factory=dict)  # node -> GPUs, where available
    disks: Sequence[DiskUsage] = ()
    notifications: Mapping[NotificationState, int] = field(default_factory=dict)  # how many
    health: Health = field(default_factory=Health)


class Monitoring:
    def __init__(
        self,
        store: Store,
        engine: EngineSet,
        control: Control,
        place: Installation,
        metrics: Metrics,
        *,
        is_open: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self.is_open = is_open  # to everyone, without login
        self._store = store
        self._engine = engine
        self._control = control
        self._installation = place
        self._metrics = metrics
        self._clock = clock

    async def take_snapshot(self, actor: Actor | None) -> MonitoringSnapshot:
        """Return a snapshot. `actor`: None without login."""
        if not self.is_open and (actor is None or not has_permission(actor, Permission.MANAGE_INSTALLATION)):
            raise Forbidden(
                msg("Only admins can read the server's metrics"),
                hint=msg("Use an admin's token, or allow public access with the setting metrics.open."),
            )
        nodes, groups = self._control.get_usage()
        return MonitoringSnapshot(
            at=self._clock(),
            jobs=self._control.list_snapshots(),
            totals=self._control.get_job_totals(),
            nodes=nodes,
            groups=groups,
            running=tuple(self._metrics.iter_running_tasks()),
            gpus=await self._read_gpu_states(),
            disks=await self._installation.read_disks(),
            notifications=await self._count_notifications(),
            health=await self._installation.check_health(),
        )

    async def _read_gpu_states(self) -> Mapping[str, Sequence[GpuState]]:
        return await self._engine.read_gpu_states() if self._metrics.enabled else {}

    async def _count_notifications(self) -> Mapping[NotificationState, int]:
        """Count notifications; empty if the database is down, which `is_healthy` reports."""
        try:
            return await self._store.read(notifications.count_notifications_by_state)
        except StoreError:
            return {}
