"""Resources in use per node, group, and user in a group. Changes in place; does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from .placement import EPSILON, Assignment, Node, QueueEntry, Quota, ResourceAmount, TaskRequest

U = TypeVar("U", bound="ClusterUsage")

_ZERO_AMOUNT = ResourceAmount()
UNLIMITED_QUOTAS = (Quota(), Quota())


class ClusterUsage:
    """Amounts in use, without individual devices: quick to copy for what-if checks.

    Nothing is reserved on queue nodes: only the tasks that wait there are counted.
    """

    def __init__(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]] | None = None) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.quotas: dict[str, tuple[Quota, Quota]] = dict(quotas or {})  # group -> (its own, each user's)
        ordinary = {name: node for name, node in self.nodes.items() if not node.is_queue}
        self.free = {name: node.usable for name, node in ordinary.items()}
        self._available: dict[str, dict[str, ResourceAmount]] = {}  # cached, by engine
        self.free_ports = {name: node.port_count for name, node in ordinary.items()}
        self.queued = {name: 0 for name, node in self.nodes.items() if node.is_queue}  # tasks that wait on queue nodes
        self._queue_usage = dict.fromkeys(self.queued, _ZERO_AMOUNT)  # of tasks that run there
        self._queue_nodes: dict[str, Node | None] = {}  # cached, by engine
        self.group_use: dict[str, ResourceAmount] = {}
        self.user_use: dict[tuple[str, str], ResourceAmount] = {}

    def copy(self) -> ClusterUsage:
        return self._copy_usage_to(ClusterUsage(()))

    def _copy_usage_to(self, other: U) -> U:
        other.nodes, other._available, other.quotas = self.nodes, self._available, self.quotas
        other.free, other.free_ports = dict(self.free), dict(self.free_ports)
        other.queued, other._queue_usage = dict(self.queued), dict(self._queue_usage)
        other._queue_nodes = self._queue_nodes
        other.group_use, other.user_use = dict(self.group_use), dict(self.user_use)
        return other

    def get_available_nodes(self, engine: str) -> dict[str, ResourceAmount]:
        """Return the ordinary nodes on which the engine can start tasks now, with what tasks can use of them
        together."""
        found = self._available.get(engine)
        if found is None:
            found = {name: self.nodes[name].usable for name in self.free if self.nodes[name].is_available(engine)}
            self._available[engine] = found
        return found

    def find_queue_node(self, engine: str) -> Node | None:
        """Return the queue node of the engine; None if it has ordinary nodes."""
        if not self.queued:
            return None
        if engine not in self._queue_nodes:
            nodes = [node for node in self.nodes.values() if node.belongs_to(engine)]
            self._queue_nodes[engine] = nodes[0] if nodes and all(node.is_queue for node in nodes) else None
        return self._queue_nodes[engine]

    def admits_tasks(self, node: Node, count: int) -> bool:
        """Whether so many tasks can enter the queue of a queue node together. An empty queue admits any number."""
        waiting, limit = self.queued[node.name], node.queue_limit or 0
        return waiting == 0 or waiting + count <= limit

    def get_free_amount(self, node: str) -> ResourceAmount:
        """Return what is free on a node, to be shown: other programs may use more of a queue node."""
        if node not in self.queued:
            return self.free[node]
        return self.nodes[node].usable.minus(self._queue_usage[node]).elementwise_max(_ZERO_AMOUNT)

    def get_available_amounts(self, engine: str) -> dict[str, ResourceAmount]:
        """Return what is free on each of these nodes."""
        return {name: self.free[name] for name in self.get_available_nodes(engine)}

    def get_group_usage(self, group: str) -> ResourceAmount:
        return self.group_use.get(group, _ZERO_AMOUNT)

    def get_user_usage(self, group: str, user: str) -> ResourceAmount:
        return self.user_use.get((group, user), _ZERO_AMOUNT)

    def get_usage_by_user(self) -> dict[str, dict[str, ResourceAmount]]:
        """Return group -> user -> amount in use."""
        found: dict[str, dict[str, ResourceAmount]] = {}
        for (group, user), amount in self.user_use.items():
            if amount.cpu > EPSILON or amount.memory or amount.gpu:
                found.setdefault(group, {})[user] = amount
        return found

    def get_quotas(self, group: str) -> tuple[Quota, Quota]:
        return self.quotas.get(group, UNLIMITED_QUOTAS)

    def apply_request(self, waiting: QueueEntry, request: TaskRequest, node: str, sign: int) -> None:
        """Add (+1) or remove (-1) a request on a node."""
        self._update_quota_usage(waiting.group, waiting.user, request.amount, sign)
        if node in self.queued:
            self.queued[node] += sign
        else:
            self._update_node_usage(node, request.needs, request.port_count, sign)

    def apply_assignment(self, assignment: Assignment, sign: int) -> None:
        """Add or remove an assignment. On a removed node it counts against quotas only."""
        self._update_quota_usage(assignment.group, assignment.user, assignment.amount, sign)
        node = self.nodes.get(assignment.node)
        if node is None:
            return
        if node.is_queue:
            self._update_queue_usage(assignment, sign)
        else:
            self._update_node_usage(node.name, assignment.needs, _count_ports_in_range(assignment, node), sign)

    def _update_quota_usage(self, group: str, user: str, amount: ResourceAmount, sign: int) -> None:
        of_group, of_user = self.get_group_usage(group), self.get_user_usage(group, user)
        self.group_use[group] = of_group.plus(amount) if sign > 0 else of_group.minus(amount)
        self.user_use[group, user] = of_user.plus(amount) if sign > 0 else of_user.minus(amount)

    def _update_node_usage(self, node: str, needs: ResourceAmount, ports: int, sign: int) -> None:
        free = self.free[node]
        self.free[node] = free.minus(needs) if sign > 0 else free.plus(needs)
        self.free_ports[node] -= sign * ports

    def _update_queue_usage(self, assignment: Assignment, sign: int) -> None:
        node, used = assignment.node, self._queue_usage[assignment.node]
        if assignment.is_waiting:
            self.queued[node] += sign
        else:
            self._queue_usage[node] = used.plus(assignment.needs) if sign > 0 else used.minus(assignment.needs)


class Ledger(ClusterUsage):
    """All assignments, with their devices and ports."""

    def __init__(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]] | None = None) -> None:
        super().__init__(nodes, quotas)
        self.free_gpus = {name: set(self.nodes[name].gpus) for name in self.free}
        self.used_ports: dict[str, set[int]] = {name: set() for name in self.free}
        self.assignments: dict[str, Assignment] = {}

    def snapshot(self) -> Ledger:
        """Return a copy to read while this one changes, without devices and ports."""
        ledger = self._copy_usage_to(Ledger(()))
        ledger.assignments = dict(self.assignments)
        return ledger

    def add_assignment(self, assignment: Assignment) -> None:
        """Record an assignment; idempotent."""
        if assignment.attempt_id in self.assignments:
            self.set_waiting(assignment.attempt_id, assignment.is_waiting)
            return
        self.assignments[assignment.attempt_id] = assignment
        self.apply_assignment(assignment, +1)
        if assignment.node in self.free:
            self.free_gpus[assignment.node] -= set(assignment.gpus)
            self.used_ports[assignment.node] |= _collect_ports(assignment)

    def remove_assignment(self, attempt_id: str) -> bool:
        assignment = self.assignments.pop(attempt_id, None)
        if assignment is None:
            return False
        self.apply_assignment(assignment, -1)
        if assignment.node in self.free:
            self.free_gpus[assignment.node] |= set(assignment.gpus) & set(self.nodes[assignment.node].gpus)
            self.used_ports[assignment.node] -= _collect_ports(assignment)
        return True

    def set_waiting(self, attempt_id: str, is_waiting: bool) -> None:
        """Record whether a task on a queue node still waits."""
        assignment = self.assignments.get(attempt_id)
        if assignment is None or assignment.node not in self.queued or assignment.is_waiting is is_waiting:
            return
        self._update_queue_usage(assignment, -1)
        self.assignments[attempt_id] = assignment = replace(assignment, is_waiting=is_waiting)
        self._update_queue_usage(assignment, +1)

    def assign_request(self, waiting: QueueEntry, request: TaskRequest, node: str) -> Assignment:
        """Assign a node, devices and ports to a request; on a queue node, the engine chooses devices and ports."""
        is_ordinary = node in self.free
        assignment = Assignment(
            attempt_id=request.attempt_id,
            node=node,
            amount=request.amount,
            asked=request.asked,
            user=waiting.user,
            group=waiting.group,
            engine=waiting.engine,
            gpus=tuple(sorted(self.free_gpus[node])[: request.amount.gpu]) if is_ordinary else (),
            ports=_pick_ports(request, self.nodes[node], self.used_ports[node]) if is_ordinary else {},
        )
        self.add_assignment(assignment)
        return assignment


def _collect_ports(assignment: Assignment) -> set[int]:
    return {port for label in assignment.ports.values() for port in label}


def _count_ports_in_range(assignment: Assignment, node: Node) -> int:
    """Count ports in the node's range; tasks started under an earlier range may use others."""
    return sum(node.offers_port(port) for port in _collect_ports(assignment)) if assignment.ports else 0


def _pick_ports(request: TaskRequest, node: Node, used: set[int]) -> dict[str, tuple[int, ...]]:
    """Choose free ports, starting at a point that differs per attempt, so that a retry gets other ones."""
    if not request.ports:
        return {}
    span = node.port_end - node.port_start
    at = sum((i + 1) * ord(char) for i, char in enumerate(request.attempt_id)) * 7919 % span
    free = (node.port_start + (at + i) % span for i in range(span))
    unused = (port for port in free if port not in used and port not in node.reserved_ports)
    return {label: tuple(next(unused) for _ in range(count)) for label, count in request.ports.items()}
