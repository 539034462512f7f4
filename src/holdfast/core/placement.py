"""Who runs where, now: a queue, what is in use, capacity and quotas -> assignments.

`Ledger` and `Queue` are bookkeeping that changes in place; nothing here does I/O. One pass costs what it places and the
few jobs it has to look past, not the number of jobs that exist.

A job that must wait for room on a machine has what it asks for set aside there, so that later and smaller jobs pass it
only where they cannot delay it. Within a group, a job that its user's quota stops is passed; one that the group's quota
stops also stops those behind it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge

EPSILON = 1e-9  # cores are fractions, and 0.1 ten times must still fit in 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine and all it has."""

    name: str
    cpu: float
    memory: int  # bytes
    gpus: tuple[int, ...] = ()
    port_start: int = 15000  # inclusive
    port_end: int = 40000  # exclusive
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Upper bounds on what is in use at one time; None: no bound."""

    cpu: float | None = None
    memory: int | None = None  # bytes
    gpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    cpu: float = 0.0
    memory: int = 0
    gpu: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(cpu=self.cpu + other.cpu, memory=self.memory + other.memory, gpu=self.gpu + other.gpu)

    def minus(self, other: Amount) -> Amount:
        return Amount(cpu=self.cpu - other.cpu, memory=self.memory - other.memory, gpu=self.gpu - other.gpu)

    def fits(self, room: Amount) -> bool:
        return self.cpu <= room.cpu + EPSILON and self.memory <= room.memory and self.gpu <= room.gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One task that waits for a place."""

    attempt_id: str
    amount: Amount
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An entry of the queue: all of its requests are placed together, or none."""

    id: str  # the job's, or the task attempt's when tasks are placed one by one
    job_id: str
    user: str
    group: str
    priority: int
    order: tuple[float, str]  # time of submission, then id
    requests: tuple[Request, ...]

    @property
    def key(self) -> tuple[int, tuple[float, str]]:
        return (-self.priority, self.order)

    @property
    def total(self) -> Amount:
        return _sum(request.amount for request in self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    attempt_id: str
    node: str
    amount: Amount
    user: str
    group: str
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    waiting: Waiting
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """No machine here could ever run it."""

    waiting: Waiting
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would happen to a job if it were submitted now."""

    answer: str  # now, wait or never
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    node: Node
    free: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUse:
    group: str
    used: Amount
    quota: Quota
    user_quota: Quota
    users: Mapping[str, Amount] = field(default_factory=dict)  # what each user of it has in use, if anything


_Entry = tuple[tuple[int, tuple[float, str]], str]


class Queue:
    """What waits, highest priority first, then oldest first; one sorted list per group."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._groups: dict[str, list[_Entry]] = {}
        self._unchecked: dict[str, None] = {}  # whether they could ever run

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: str) -> bool:
        return id in self._waiting

    def get(self, id: str) -> Waiting | None:
        return self._waiting.get(id)

    def add(self, waiting: Waiting) -> None:
        self.remove(waiting.id)
        self._waiting[waiting.id] = waiting
        insort(self._groups.setdefault(waiting.group, []), (waiting.key, waiting.id))
        self._unchecked[waiting.id] = None

    def remove(self, id: str) -> None:
        waiting = self._waiting.pop(id, None)
        self._unchecked.pop(id, None)
        if waiting is None:
            return
        entries = self._groups[waiting.group]
        del entries[bisect_left(entries, (waiting.key, id))]
        if not entries:
            del self._groups[waiting.group]

    def take_unchecked(self) -> list[Waiting]:
        unchecked, self._unchecked = self._unchecked, {}
        return [self._waiting[id] for id in unchecked]

    def check_again(self) -> None:
        """What may ever run has changed."""
        self._unchecked = dict.fromkeys(self._waiting)

    def walk(self, closed: set[str]) -> Iterator[Waiting]:
        """In order; a group put into `closed` on the way is left out from then on."""

        def of(group: str) -> Iterator[_Entry]:
            for entry in tuple(self._groups[group]):
                if group in closed:
                    return
                yield entry

        for _, id in merge(*(of(group) for group in tuple(self._groups))):
            waiting = self._waiting.get(id)
            if waiting is not None and waiting.group not in closed:
                yield waiting

    def ahead(self, waiting: Waiting) -> int:
        """How many of its group stand, or would stand, before it."""
        return bisect_left(self._groups.get(waiting.group, []), (waiting.key, waiting.id))


class Ledger:
    """What is in use, per machine, per group, and per user in a group."""

    def __init__(self, nodes: Iterable[Node], quotas: Mapping[str, tuple[Quota, Quota]] | None = None) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.free = {node.name: _whole(node) for node in self.nodes.values()}
        self.free_gpus = {node.name: set(node.gpus) for node in self.nodes.values()}
        self.used_ports: dict[str, set[int]] = {name: set() for name in self.nodes}
        self.quotas: dict[str, tuple[Quota, Quota]] = dict(quotas or {})  # group -> (its own, each user's)
        self.group_use: dict[str, Amount] = {}
        self.user_use: dict[tuple[str, str], Amount] = {}
        self.held: dict[str, Assignment] = {}

    def claim(self, assignment: Assignment) -> None:
        """Idempotent. A claim on a machine that is gone counts against quotas alone."""
        if assignment.attempt_id in self.held:
            return
        self.held[assignment.attempt_id] = assignment
        self._book(assignment, +1)

    def release(self, attempt_id: str) -> bool:
        assignment = self.held.pop(attempt_id, None)
        if assignment is None:
            return False
        self._book(assignment, -1)
        return True

    def _book(self, assignment: Assignment, sign: int) -> None:
        change = _scaled(assignment.amount, sign)
        key = (assignment.group, assignment.user)
        self.group_use[assignment.group] = self.group_use.get(assignment.group, Amount()).plus(change)
        self.user_use[key] = self.user_use.get(key, Amount()).plus(change)
        if assignment.node not in self.nodes:
            return
        self.free[assignment.node] = self.free[assignment.node].minus(change)
        ports = {port for label in assignment.ports.values() for port in label}
        if sign > 0:
            self.free_gpus[assignment.node] -= set(assignment.gpus)
            self.used_ports[assignment.node] |= ports
        else:
            self.free_gpus[assignment.node] |= set(assignment.gpus) & set(self.nodes[assignment.node].gpus)
            self.used_ports[assignment.node] -= ports

    def used_by(self, group: str) -> Amount:
        return self.group_use.get(group, Amount())

    def use_by_user(self) -> dict[str, dict[str, Amount]]:
        """Group -> user -> what they have in use, if anything."""
        found: dict[str, dict[str, Amount]] = {}
        for (group, user), amount in self.user_use.items():
            if amount.cpu > EPSILON or amount.memory or amount.gpu:
                found.setdefault(group, {})[user] = amount
        return found

    def quota_of(self, group: str) -> tuple[Quota, Quota]:
        return self.quotas.get(group, (Quota(), Quota()))


def place(queue: Queue, ledger: Ledger) -> list[Placed | Refused]:
    """One pass over the queue. What is placed is claimed in the ledger and leaves the queue."""
    decisions: list[Placed | Refused] = list(_refuse(queue, ledger))
    over = {decision.waiting.job_id for decision in decisions}  # such a job ends: no place for its other tasks
    closed: set[str] = set()
    room = dict(ledger.free)  # what later jobs may take: free, less what is set aside for jobs that wait
    for waiting in queue.walk(closed):
        if _exhausted(room):
            break
        if waiting.job_id in over:
            continue
        decision = _place_one(waiting, ledger, room, closed)
        if decision is not None:
            decisions.append(decision)
            queue.remove(waiting.id)
    return decisions


def _refuse(queue: Queue, ledger: Ledger) -> Iterator[Refused]:
    """What can never run is told so at once, not when its turn would come."""
    over: set[str] = set()  # once is enough to end a job
    for waiting in queue.take_unchecked():
        never = impossible(waiting, ledger) if waiting.job_id not in over else ()
        if never:
            over.add(waiting.job_id)
            queue.remove(waiting.id)
            yield Refused(waiting, never)


def _place_one(waiting: Waiting, ledger: Ledger, room: dict[str, Amount], closed: set[str]) -> Placed | None:
    group_quota, user_quota = ledger.quota_of(waiting.group)
    total = waiting.total
    if over_quota(user_quota, ledger.user_use.get((waiting.group, waiting.user), Amount()), total):
        return None
    if over_quota(group_quota, ledger.used_by(waiting.group), total):
        closed.add(waiting.group)
        return None
    spots = _fit(waiting.requests, room, ledger)
    if spots is None:
        _set_aside(waiting.requests, room, ledger)
        return None
    if _lacks_ports(waiting.requests, spots, ledger):
        return None
    assignments = tuple(
        _assign(waiting, request, spot, ledger, room) for request, spot in zip(waiting.requests, spots, strict=True)
    )
    return Placed(waiting, assignments)


def impossible(waiting: Waiting, ledger: Ledger) -> tuple[str, ...]:
    """Why no state of the cluster could ever run it: each resource, requested against the largest available."""
    wholes = [_whole(node) for node in ledger.nodes.values()]
    reasons = list(dict.fromkeys(reason for request in waiting.requests for reason in _too_big(request.amount, wholes)))
    if not reasons and _fit_amounts([request.amount for request in waiting.requests], wholes) is None:
        reasons.append(_too_many(waiting, wholes))
    wanted = sum(_port_count(request) for request in waiting.requests)
    there = sum(node.port_end - node.port_start for node in ledger.nodes.values())
    if wanted > there:
        reasons.append(f"it asks for {wanted} ports, the machines have {there}")
    group_quota, user_quota = ledger.quota_of(waiting.group)
    total = waiting.total
    reasons += [f"the quota of group {waiting.group} is {text}" for text in over_quota(group_quota, Amount(), total)]
    reasons += [f"each user's quota in {waiting.group} is {text}" for text in over_quota(user_quota, Amount(), total)]
    return tuple(reasons)


def explain(waiting: Waiting, queue: Queue, ledger: Ledger) -> tuple[str, ...]:
    """Every reason why it is not running now, in plain words; empty when it would be placed."""
    reasons: list[str] = []
    group_quota, user_quota = ledger.quota_of(waiting.group)
    total = waiting.total
    used = ledger.used_by(waiting.group)
    mine = ledger.user_use.get((waiting.group, waiting.user), Amount())
    for text in over_quota(group_quota, used, total):
        reasons.append(f"The quota of group {waiting.group} is {text}.")
    for text in over_quota(user_quota, mine, total):
        reasons.append(f"The quota of user {waiting.user} in group {waiting.group} is {text}.")
    spots = _fit(waiting.requests, ledger.free, ledger)
    if spots is None:
        reasons.append(_no_room(waiting, ledger))
    elif _lacks_ports(waiting.requests, spots, ledger):
        reasons.append("Too few ports are free for its tasks.")
    ahead = queue.ahead(waiting)
    if ahead:
        jobs = "job stands" if ahead == 1 else "jobs stand"
        reasons.append(f"{ahead} {jobs} before it in the queue of group {waiting.group}.")
    return tuple(reasons)


def over_quota(quota: Quota, used: Amount, asked: Amount) -> list[str]:
    """One text for each bound that `asked` would break."""
    found = []
    if quota.cpu is not None and used.cpu + asked.cpu > quota.cpu + EPSILON:
        found.append(f"{show_cores(quota.cpu)}, {used.cpu:g} in use, {asked.cpu:g} asked for")
    if quota.memory is not None and used.memory + asked.memory > quota.memory:
        sizes = (show_bytes(quota.memory), show_bytes(used.memory), show_bytes(asked.memory))
        found.append("{} of memory, {} in use, {} asked for".format(*sizes))
    if quota.gpu is not None and used.gpu + asked.gpu > quota.gpu:
        found.append(f"{show_gpus(quota.gpu)}, {used.gpu} in use, {asked.gpu} asked for")
    return found


def show_bytes(count: int) -> str:
    """2147483648 -> 2 GiB."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def show_cores(cores: float) -> str:
    """1 -> 1 core."""
    shown = f"{cores:g}"
    return f"{shown} core" if shown == "1" else f"{shown} cores"


def show_gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _fit(requests: Sequence[Request], room: Mapping[str, Amount], ledger: Ledger) -> list[str] | None:
    names = [name for name in room if name in ledger.nodes]
    spots = _fit_amounts([request.amount for request in requests], [room[name] for name in names])
    return None if spots is None else [names[spot] for spot in spots]


def _fit_amounts(amounts: Sequence[Amount], rooms: Sequence[Amount]) -> list[int] | None:
    """Largest first onto the fullest machine that still takes it, so that large holes stay whole."""
    left = list(rooms)
    spots = [-1] * len(amounts)
    largest_first = sorted(
        range(len(amounts)), key=lambda i: (amounts[i].gpu, amounts[i].memory, amounts[i].cpu), reverse=True
    )
    for i in largest_first:
        candidates = [j for j, room in enumerate(left) if amounts[i].fits(room)]
        if not candidates:
            return None
        spot = min(candidates, key=lambda j: (left[j].gpu, left[j].cpu, left[j].memory, j))
        left[spot] = left[spot].minus(amounts[i])
        spots[i] = spot
    return spots


def _assign(waiting: Waiting, request: Request, node: str, ledger: Ledger, room: dict[str, Amount]) -> Assignment:
    assignment = Assignment(
        attempt_id=request.attempt_id,
        node=node,
        amount=request.amount,
        user=waiting.user,
        group=waiting.group,
        gpus=tuple(sorted(ledger.free_gpus[node])[: request.amount.gpu]),
        ports=_pick_ports(request, ledger.nodes[node], ledger.used_ports[node]),
    )
    ledger.claim(assignment)
    room[node] = room[node].minus(request.amount)
    return assignment


def _port_count(request: Request) -> int:
    return sum(request.ports.values())


def _lacks_ports(requests: Sequence[Request], spots: Sequence[str], ledger: Ledger) -> bool:
    wanted: dict[str, int] = {}
    for request, spot in zip(requests, spots, strict=True):
        wanted[spot] = wanted.get(spot, 0) + _port_count(request)
    return any(not _has_ports(name, count, ledger) for name, count in wanted.items() if count)


def _has_ports(name: str, count: int, ledger: Ledger) -> bool:
    node, used = ledger.nodes[name], ledger.used_ports[name]
    span = node.port_end - node.port_start
    if count <= span - len(used):
        return True
    # Tasks that have run on since the range was another one may hold ports outside of it.
    return count <= span - sum(node.port_start <= port < node.port_end for port in used)


def _pick_ports(request: Request, node: Node, used: set[int]) -> dict[str, tuple[int, ...]]:
    """Free ports, starting at a point that differs per attempt, so that a retry meets other ones."""
    span = node.port_end - node.port_start
    at = sum((i + 1) * ord(char) for i, char in enumerate(request.attempt_id)) * 7919 % span
    free = (node.port_start + (at + i) % span for i in range(span))
    unused = (port for port in free if port not in used)
    return {label: tuple(next(unused) for _ in range(count)) for label, count in request.ports.items()}


def _set_aside(requests: Sequence[Request], room: dict[str, Amount], ledger: Ledger) -> None:
    """Take a blocked job's demand out of the room, on the machines where it could run one day."""
    wholes = {name: _whole(node) for name, node in ledger.nodes.items()}
    for request in sorted(requests, key=lambda request: (request.amount.gpu, request.amount.memory), reverse=True):
        fitting = [name for name, whole in wholes.items() if request.amount.fits(whole)]
        if not fitting:
            continue
        spot = max(fitting, key=lambda name: (room[name].gpu, room[name].cpu, room[name].memory))
        wholes[spot] = wholes[spot].minus(request.amount)
        left = room[spot].minus(request.amount)
        room[spot] = Amount(cpu=max(0.0, left.cpu), memory=max(0, left.memory), gpu=max(0, left.gpu))


def _exhausted(room: Mapping[str, Amount]) -> bool:
    return all(amount.cpu <= EPSILON or amount.memory <= 0 for amount in room.values())


def _too_big(amount: Amount, wholes: Sequence[Amount]) -> list[str]:
    found = []
    cpu = max((whole.cpu for whole in wholes), default=0.0)
    memory = max((whole.memory for whole in wholes), default=0)
    gpu = max((whole.gpu for whole in wholes), default=0)
    if amount.cpu > cpu + EPSILON:
        found.append(f"a task asks for {show_cores(amount.cpu)}, the largest machine has {cpu:g}")
    if amount.memory > memory:
        found.append(
            f"a task asks for {show_bytes(amount.memory)} of memory, the largest machine has {show_bytes(memory)}"
        )
    if amount.gpu > gpu:
        found.append(f"a task asks for {show_gpus(amount.gpu)}, the largest machine has {gpu}")
    if not found and not any(amount.fits(whole) for whole in wholes):
        found.append("no single machine has all that a task asks for, though each part is to be had somewhere")
    return found


def _too_many(waiting: Waiting, wholes: Sequence[Amount]) -> str:
    total, all_nodes = waiting.total, _sum(wholes)
    return (
        f"its {len(waiting.requests)} tasks start together and ask for {_show(total)} in all, "
        f"the machines have {_show(all_nodes)}"
    )


def _no_room(waiting: Waiting, ledger: Ledger) -> str:
    total, free = waiting.total, _sum(ledger.free.values())
    if total.fits(free) and len(ledger.nodes) > 1:
        return f"It asks for {_show(total)}; that much is free in all, but not on machines where its tasks fit."
    return f"It asks for {_show(total)}; free now: {_show(free)}."


def _show(amount: Amount) -> str:
    parts = [show_cores(round(amount.cpu, 3)), f"{show_bytes(amount.memory)} of memory"]
    if amount.gpu:
        parts.append(show_gpus(amount.gpu))
    return ", ".join(parts)


def _sum(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for amount in amounts:
        total = total.plus(amount)
    return total


def _whole(node: Node) -> Amount:
    return Amount(cpu=node.cpu, memory=node.memory, gpu=len(node.gpus))


def _scaled(amount: Amount, sign: int) -> Amount:
    return amount if sign > 0 else Amount(cpu=-amount.cpu, memory=-amount.memory, gpu=-amount.gpu)
