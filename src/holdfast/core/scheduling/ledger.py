"""Resources in use per node, group, and user in a group. Changes in place; does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from .placement import EPSILON, Amount, Assignment, Node, QueueEntry, Quota, TaskRequest

U = TypeVar("U", bound="ClusterUsage")

_NOTHING = Amount()
_NO_QUOTAS = (Quota(), Quota())


class ClusterUsage:
    """Amounts in use, without individual devices: quick to copy for what-if checks."""

    def __init__(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]] | None = None) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.quotas: dict[str, tuple[Quota, Quota]] = dict(quotas or {})  # group -> (its own, each user's)
        self.capacities = {name: node.capacity for name, node in self.nodes.items()}
        self.free = dict(self.capacities)
        self.free_ports = {name: node.port_count for name, node in self.nodes.items()}
        self.group_use: dict[str, Amount] = {}
        self.user_use: dict[tuple[str, str], Amount] = {}

    def copy(self) -> ClusterUsage:
        return self._copy_usage_to(ClusterUsage(()))

    def _copy_usage_to(self, other: U) -> U:
        other.nodes, other.capacities, other.quotas = self.nodes, self.capacities, self.quotas
        other.free, other.free_ports = dict(self.free), dict(self.free_ports)
        other.group_use, other.user_use = dict(self.group_use), dict(self.user_use)
        return other

    def get_group_usage(self, group: str) -> Amount:
        return self.group_use.get(group, _NOTHING)

    def get_user_usage(self, group: str, user: str) -> Amount:
        return self.user_use.get((group, user), _NOTHING)

    def list_usage_by_user(self) -> dict[str, dict[str, Amount]]:
        """Return group -> user -> amount in use."""
        found: dict[str, dict[str, Amount]] = {}
        for (group, user), amount in self.user_use.items():
            if amount.cpu > EPSILON or amount.memory or amount.gpu:
                found.setdefault(group, {})[user] = amount
        return found

    def get_quotas(self, group: str) -> tuple[Quota, Quota]:
        return self.quotas.get(group, _NO_QUOTAS)

    def count_request(self, waiting: QueueEntry, request: TaskRequest, node: str, sign: int) -> None:
        """Add (+1) or remove (-1) a request on a node."""
        self._count_quota_usage(waiting.group, waiting.user, request.amount, sign)
        self._count_node_usage(node, request.needs, request.port_count, sign)

    def count_assignment(self, assignment: Assignment, sign: int) -> None:
        """Add or remove an assignment. On a removed node it counts against quotas only."""
        self._count_quota_usage(assignment.group, assignment.user, assignment.amount, sign)
        node = self.nodes.get(assignment.node)
        if node is not None:
            self._count_node_usage(node.name, assignment.needs, _count_ports_in_range(assignment, node), sign)

    def _count_quota_usage(self, group: str, user: str, amount: Amount, sign: int) -> None:
        of_group, of_user = self.get_group_usage(group), self.get_user_usage(group, user)
        self.group_use[group] = of_group.plus(amount) if sign > 0 else of_group.minus(amount)
        self.user_use[group, user] = of_user.plus(amount) if sign > 0 else of_user.minus(amount)

    def _count_node_usage(self, node: str, needs: Amount, ports: int, sign: int) -> None:
        free = self.free[node]
        self.free[node] = free.minus(needs) if sign > 0 else free.plus(needs)
        self.free_ports[node] -= sign * ports


class Ledger(ClusterUsage):
    """All assignments, with their devices and ports."""

    def __init__(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]] | None = None) -> None:
        super().__init__(nodes, quotas)
        self.free_gpus = {name: set(node.gpus) for name, node in self.nodes.items()}
        self.used_ports: dict[str, set[int]] = {name: set() for name in self.nodes}
        self.assignments: dict[str, Assignment] = {}

    def snapshot(self) -> Ledger:
        """Return a copy to read while this one changes, without devices and ports."""
        ledger = self._copy_usage_to(Ledger(()))
        ledger.assignments = dict(self.assignments)
        return ledger

    def claim(self, assignment: Assignment) -> None:
        """Record an assignment; idempotent."""
        if assignment.attempt_id in self.assignments:
            return
        self.assignments[assignment.attempt_id] = assignment
        self.count_assignment(assignment, +1)
        if assignment.node in self.nodes:
            self.free_gpus[assignment.node] -= set(assignment.gpus)
            self.used_ports[assignment.node] |= _list_ports(assignment)

    def release(self, attempt_id: str) -> bool:
        assignment = self.assignments.pop(attempt_id, None)
        if assignment is None:
            return False
        self.count_assignment(assignment, -1)
        if assignment.node in self.nodes:
            self.free_gpus[assignment.node] |= set(assignment.gpus) & set(self.nodes[assignment.node].gpus)
            self.used_ports[assignment.node] -= _list_ports(assignment)
        return True

    def assign_request(self, waiting: QueueEntry, request: TaskRequest, node: str) -> Assignment:
        """Assign a node, devices and ports to a request."""
        assignment = Assignment(
            attempt_id=request.attempt_id,
            node=node,
            amount=request.amount,
            asked=request.asked,
            user=waiting.user,
            group=waiting.group,
            gpus=tuple(sorted(self.free_gpus[node])[: request.amount.gpu]),
            ports=_pick_ports(request, self.nodes[node], self.used_ports[node]),
        )
        self.claim(assignment)
        return assignment


def _list_ports(assignment: Assignment) -> set[int]:
    return {port for label in assignment.ports.values() for port in label}


def _count_ports_in_range(assignment: Assignment, node: Node) -> int:
    """Count ports in the node's range; tasks started under an earlier range may use others."""
    return sum(node.offers_port(port) for port in _list_ports(assignment)) if assignment.ports else 0


def _pick_ports(request: TaskRequest, node: Node, used: set[int]) -> dict[str, tuple[int, ...]]:
    """Choose free ports, starting at a point that differs per attempt, so that a retry gets other ones."""
    if not request.ports:
        return {}
    span = node.port_end - node.port_start
    at = sum((i + 1) * ord(char) for i, char in enumerate(request.attempt_id)) * 7919 % span
    free = (node.port_start + (at + i) % span for i in range(span))
    unused = (port for port in free if port not in used and port not in node.reserved_ports)
    return {label: tuple(next(unused) for _ in range(count)) for label, count in request.ports.items()}
