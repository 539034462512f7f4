"""What the cluster offers: its totals as one node, and what tasks must do without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import NO_LIMITS, EngineHealth

from .commands import SlurmCommands, SlurmUnavailable
from .isolation.node_isolation import NodeIsolation, find_isolation, list_isolation_notes, list_user_notes
from .jobs import ClusterTotals
from .options import SlurmOptions
from .users.task_owners import USER_MODE

_CGROUP_LIMITS = "cgroup"
_NO_LIMITS_NOTE = msg("Slurm does not limit memory and CPU of tasks. Set `TaskPlugin=task/cgroup` in slurm.conf.")


class Cluster:
    def __init__(self, name: str, commands: SlurmCommands, options: SlurmOptions) -> None:
        self._name = name
        self._commands = commands
        self._options = options
        self._totals = ClusterTotals()
        self._has_limits = True
        self.config: dict[str, str] = {}  # of Slurm, as read last
        self.nodes: Mapping[str, NodeIsolation] = {}  # how nodes have run tasks
        self.error = ""  # why Slurm does not respond; empty: it does

    async def refresh(self) -> bool:
        """Read the totals and the limits; return whether they have changed."""
        before = (self._totals, self._has_limits, self.error)
        try:
            self._totals = await self._commands.read_totals()
            self.config = config = await self._commands.read_config()
        except SlurmUnavailable as error:
            self.error = str(error)
            raise
        self._has_limits = "cgroup" in config.get("TaskPlugin", "")
        self.error = ""
        return before != (self._totals, self._has_limits, self.error)

    def build_node(self) -> Node:
        """Return the whole cluster as one node: Slurm queues and places the tasks itself."""
        return Node(
            name=self._name,
            cpu=max(1, self._totals.cpus),
            memory=max(1, self._totals.memory),
            gpus=tuple(range(self._totals.gpus)),
            port_start=self._options.port_start,
            port_end=self._options.port_end,
            queue_limit=self._options.max_queued,
            engines={self._name: self.error and msg("Slurm does not respond")},
        )

    def get_health(self) -> EngineHealth:
        return EngineHealth(
            name=self._name,
            isolation=find_isolation(self.nodes, self._options.isolation),
            limits=_CGROUP_LIMITS if self._has_limits else NO_LIMITS,
            notes=tuple(self._iter_notes()),
            conditions=(_make_unavailable_condition(self.error),) if self.error else (),
        )

    def _iter_notes(self) -> Iterator[str]:
        mode = self._options.isolation
        has_users = self._options.run_as == USER_MODE
        yield from list_user_notes(mode) if has_users else list_isolation_notes(self.nodes, mode)
        if not self._has_limits:
            yield _NO_LIMITS_NOTE


def _make_unavailable_condition(detail: str) -> Condition:
    return Condition(
        kind=ConditionKind.ENGINE,
        message=msg("Jobs stay pending: Slurm does not respond."),
        hint=msg("Check `scontrol ping` on the server's machine. The server retries every few seconds."),
        detail=detail,
        blocks_starts=True,
    )
