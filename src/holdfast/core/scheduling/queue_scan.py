"""One scan of the queue: decides in order which jobs can start."""

from __future__ import annotations

from collections.abc import Sequence

from .fitting import fit_requests, has_port_shortage, is_exhausted, reserve_resources
from .ledger import UNLIMITED_QUOTAS, ClusterUsage
from .placement import QueueEntry, ResourceAmount

_ZERO_AMOUNT = ResourceAmount()


class QueueScan:
    """The state of one scan: closed groups and reservations."""

    def __init__(self, room: ClusterUsage) -> None:
        self.usage = room
        self.closed_groups: set[str] = set()  # groups blocked by their quota
        self.starved_groups: set[str] = set()  # groups with an entry that waits for a node
        self.closed_queues: set[str] = set()  # queue nodes with an entry that waits for its turn
        self.blocked_entries: list[QueueEntry] = []  # blocked entries, where the caller records them
        self.available = dict(room.free)  # resources for later jobs: free minus reserved
        self._reserved: dict[
            str | tuple[str, str], ResourceAmount
        ] = {}  # reserved quota, by group, and by group and user

    def find_or_reserve_nodes(self, waiting: QueueEntry) -> list[str] | None:
        """Return a node for each task if it can start now. The caller claims them in `room` and with `reserve`."""
        group, user, total = waiting.group, waiting.user, waiting.total
        group_quota, user_quota = quotas = self.usage.get_quotas(group)
        if self.closed_queues and quotas == UNLIMITED_QUOTAS and self._is_behind_closed_queue(waiting):
            return None  # fast path: thousands may wait for one queue
        if not user_quota.allows(self._get_user_usage(group, user), total):
            return None
        if not group_quota.allows(self._get_group_usage(group), total):
            self.closed_groups.add(group)
            return None
        spots = self._find_nodes(waiting)
        if spots is None:
            self._reserve_for_blocked_entry(waiting, total)
        elif has_port_shortage(waiting.requests, spots, self.usage.free_ports):
            self.starved_groups.add(group)
            return None
        return spots

    def would_start(self, waiting: QueueEntry) -> bool:
        """Whether it could start now; changes nothing."""
        group, user, total = waiting.group, waiting.user, waiting.total
        group_quota, user_quota = self.usage.get_quotas(group)
        if group in self.closed_groups or self.is_exhausted():
            return False
        if not user_quota.allows(self._get_user_usage(group, user), total):
            return False
        if not group_quota.allows(self._get_group_usage(group), total):
            return False
        spots = self._find_nodes(waiting)
        return spots is not None and not has_port_shortage(waiting.requests, spots, self.usage.free_ports)

    def is_exhausted(self) -> bool:
        """Whether no later entry can start."""
        usage = self.usage
        return is_exhausted(self.available) and all(
            name in self.closed_queues or not usage.admits_tasks(usage.nodes[name], 1) for name in usage.queued
        )

    def reserve(self, waiting: QueueEntry, spots: Sequence[str]) -> None:
        for request, spot in zip(waiting.requests, spots, strict=True):
            if spot in self.available:
                self.available[spot] = self.available[spot].minus(request.needs)

    def _find_nodes(self, waiting: QueueEntry) -> list[str] | None:
        if self.closed_queues and self._is_behind_closed_queue(waiting):
            return None
        return fit_requests(waiting, self.available, self.usage)

    def _is_behind_closed_queue(self, waiting: QueueEntry) -> bool:
        node = self.usage.find_queue_node(waiting.engine)
        return node is not None and node.name in self.closed_queues

    def _reserve_for_blocked_entry(self, waiting: QueueEntry, total: ResourceAmount) -> None:
        self.starved_groups.add(waiting.group)
        node = self.usage.find_queue_node(waiting.engine)
        if node is not None:
            self.closed_queues.add(node.name)  # or smaller jobs would keep a gang waiting
        else:
            reserve_resources(waiting, self.available, self.usage)
        for key in (waiting.group, (waiting.group, waiting.user)):
            self._reserved[key] = self._reserved.get(key, _ZERO_AMOUNT).plus(total)

    def _get_group_usage(self, group: str) -> ResourceAmount:
        used = self.usage.get_group_usage(group)
        return used.plus(self._reserved[group]) if group in self._reserved else used

    def _get_user_usage(self, group: str, user: str) -> ResourceAmount:
        used = self.usage.get_user_usage(group, user)
        return used.plus(self._reserved[group, user]) if (group, user) in self._reserved else used
