"""What is in use, per machine, per group, and per user in a group. Changes in place; does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .placement import EPSILON, Amount, Assignment, Node, Quota, Request, Waiting

_NOTHING = Amount()
_NO_QUOTAS = (Quota(), Quota())


class Room:
    """The numbers that decide, without who holds which device: quick to copy, to try out what would be."""

    def __init__(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]] | None = None) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.quotas: dict[str, tuple[Quota, Quota]] = dict(quotas or {})  # group -> (its own, each user's)
        self.wholes = {name: node.whole for name, node in self.nodes.items()}
        self.free = dict(self.wholes)
        self.free_ports = {name: node.port_count for name, node in self.nodes.items()}
        self.group_use: dict[str, Amount] = {}
        self.user_use: dict[tuple[str, str], Amount] = {}

    def copy(self) -> Room:
        room = Room(())
        room.nodes, room.wholes, room.quotas = self.nodes, self.wholes, self.quotas
        room.free, room.free_ports = dict(self.free), dict(self.free_ports)
        room.group_use, room.user_use = dict(self.group_use), dict(self.user_use)
        return room

    def used_by(self, group: str) -> Amount:
        return self.group_use.get(group, _NOTHING)

    def used_by_user(self, group: str, user: str) -> Amount:
        return self.user_use.get((group, user), _NOTHING)

    def use_by_user(self) -> dict[str, dict[str, Amount]]:
        """Group -> user -> what they have in use, if anything."""
        found: dict[str, dict[str, Amount]] = {}
        for (group, user), amount in self.user_use.items():
            if amount.cpu > EPSILON or amount.memory or amount.gpu:
                found.setdefault(group, {})[user] = amount
        return found

    def quota_of(self, group: str) -> tuple[Quota, Quota]:
        return self.quotas.get(group, _NO_QUOTAS)

    def count_request(self, waiting: Waiting, request: Request, node: str, sign: int) -> None:
        """As if it had that place (+1), or had it no longer (-1)."""
        self._count(waiting.group, waiting.user, request.amount, sign)
        self._count_on(node, request.needs, request.port_count, sign)

    def count(self, assignment: Assignment, sign: int) -> None:
        """A place on a machine that is gone counts against quotas alone."""
        self._count(assignment.group, assignment.user, assignment.amount, sign)
        node = self.nodes.get(assignment.node)
        if node is not None:
            self._count_on(node.name, assignment.needs, _ports_within(assignment, node), sign)

    def _count(self, group: str, user: str, amount: Amount, sign: int) -> None:
        of_group, of_user = self.used_by(group), self.used_by_user(group, user)
        self.group_use[group] = of_group.plus(amount) if sign > 0 else of_group.minus(amount)
        self.user_use[group, user] = of_user.plus(amount) if sign > 0 else of_user.minus(amount)

    def _count_on(self, node: str, needs: Amount, ports: int, sign: int) -> None:
        free = self.free[node]
        self.free[node] = free.minus(needs) if sign > 0 else free.plus(needs)
        self.free_ports[node] -= sign * ports


class Ledger(Room):
    """Who holds what."""

    def __init__(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]] | None = None) -> None:
        super().__init__(nodes, quotas)
        self.free_gpus = {name: set(node.gpus) for name, node in self.nodes.items()}
        self.used_ports: dict[str, set[int]] = {name: set() for name in self.nodes}
        self.held: dict[str, Assignment] = {}

    def still(self) -> Ledger:
        """As it stands now: another one, to be read while this one changes. Devices and ports are not told apart."""
        ledger = Ledger(())
        ledger.nodes, ledger.wholes, ledger.quotas = self.nodes, self.wholes, self.quotas
        ledger.free, ledger.free_ports = dict(self.free), dict(self.free_ports)
        ledger.group_use, ledger.user_use = dict(self.group_use), dict(self.user_use)
        ledger.held = dict(self.held)
        return ledger

    def claim(self, assignment: Assignment) -> None:
        """Idempotent."""
        if assignment.attempt_id in self.held:
            return
        self.held[assignment.attempt_id] = assignment
        self.count(assignment, +1)
        if assignment.node in self.nodes:
            self.free_gpus[assignment.node] -= set(assignment.gpus)
            self.used_ports[assignment.node] |= _ports_of(assignment)

    def release(self, attempt_id: str) -> bool:
        assignment = self.held.pop(attempt_id, None)
        if assignment is None:
            return False
        self.count(assignment, -1)
        if assignment.node in self.nodes:
            self.free_gpus[assignment.node] |= set(assignment.gpus) & set(self.nodes[assignment.node].gpus)
            self.used_ports[assignment.node] -= _ports_of(assignment)
        return True

    def assign(self, waiting: Waiting, request: Request, node: str) -> Assignment:
        """Give a task its place: devices and ports too."""
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


def _ports_of(assignment: Assignment) -> set[int]:
    return {port for label in assignment.ports.values() for port in label}


def _ports_within(assignment: Assignment, node: Node) -> int:
    """Tasks that have run on since the range was another one may hold ports outside of it."""
    return sum(node.offers_port(port) for port in _ports_of(assignment)) if assignment.ports else 0


def _pick_ports(request: Request, node: Node, used: set[int]) -> dict[str, tuple[int, ...]]:
    """Free ports, starting at a point that differs per attempt, so that a retry meets other ones."""
    if not request.ports:
        return {}
    span = node.port_end - node.port_start
    at = sum((i + 1) * ord(char) for i, char in enumerate(request.attempt_id)) * 7919 % span
    free = (node.port_start + (at + i) % span for i in range(span))
    unused = (port for port in free if port not in used and port not in node.reserved_ports)
    return {label: tuple(next(unused) for _ in range(count)) for label, count in request.ports.items()}
