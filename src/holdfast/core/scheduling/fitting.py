"""Fits all tasks of a job on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .ledger import ClusterUsage
from .placement import EPSILON, Node, QueueEntry, ResourceAmount, TaskRequest


def fit_requests(waiting: QueueEntry, free: Mapping[str, ResourceAmount], room: ClusterUsage) -> list[str] | None:
    """Return a node for each request within `free`; None if not all fit."""
    queue_node = room.find_queue_node(waiting.engine)
    if queue_node is not None:
        return _fit_into_queue(waiting, queue_node, room)
    requests, names = waiting.requests, list(room.get_available_nodes(waiting.engine))
    if len(requests) == len(names) == 1:  # fast path for the common case
        return names if requests[0].needs.fits_in(free[names[0]]) else None
    spots = fit_amounts([request.needs for request in requests], [free[name] for name in names])
    return None if spots is None else [names[spot] for spot in spots]


def _fit_into_queue(waiting: QueueEntry, node: Node, room: ClusterUsage) -> list[str] | None:
    """The engine decides where and when its tasks run, so only the length of its queue counts."""
    count = len(waiting.requests)
    if not node.is_available(waiting.engine) or not room.admits_tasks(node, count):
        return None
    return [node.name] * count


def fit_amounts(amounts: Sequence[ResourceAmount], rooms: Sequence[ResourceAmount]) -> list[int] | None:
    """Place the largest first on the fullest node that fits, to keep large gaps."""
    left = list(rooms)
    spots = [-1] * len(amounts)
    for i in _list_indexes_largest_first(amounts):
        spot = _find_fullest_node_index(amounts[i], left)
        if spot is None:
            return None
        left[spot] = left[spot].minus(amounts[i])
        spots[i] = spot
    return spots


def find_unplaced_amounts(
    amounts: Sequence[ResourceAmount], rooms: Sequence[ResourceAmount]
) -> tuple[list[ResourceAmount], list[ResourceAmount]]:
    """Return the amounts that do not fit beside the others, largest first, and what is left of each node."""
    left, failed = list(rooms), []
    for i in _list_indexes_largest_first(amounts):
        spot = _find_fullest_node_index(amounts[i], left)
        if spot is None:
            failed.append(amounts[i])
        else:
            left[spot] = left[spot].minus(amounts[i])
    return failed, left


def _list_indexes_largest_first(amounts: Sequence[ResourceAmount]) -> list[int]:
    return sorted(range(len(amounts)), key=lambda i: (amounts[i].gpu, amounts[i].memory, amounts[i].cpu), reverse=True)


def _find_fullest_node_index(amount: ResourceAmount, left: Sequence[ResourceAmount]) -> int | None:
    candidates = [j for j, room in enumerate(left) if amount.fits_in(room)]
    return min(candidates, key=lambda j: (left[j].gpu, left[j].cpu, left[j].memory, j), default=None)


def has_port_shortage(requests: Sequence[TaskRequest], spots: Sequence[str], free_ports: Mapping[str, int]) -> bool:
    if not any(request.ports for request in requests):
        return False
    wanted: dict[str, int] = {}
    for request, spot in zip(requests, spots, strict=True):
        wanted[spot] = wanted.get(spot, 0) + request.port_count
    return any(count > free_ports[name] for name, count in wanted.items() if count and name in free_ports)


def reserve_resources(waiting: QueueEntry, free: dict[str, ResourceAmount], room: ClusterUsage) -> None:
    """Reserve a blocked job's requests on the nodes where it could run later. A job that waits for a node which is not
    available reserves nothing: it is unknown when that node returns."""
    requests, wholes = waiting.requests, room.get_available_nodes(waiting.engine)
    if len(requests) == len(wholes) == 1:
        (name,) = wholes
        if requests[0].needs.fits_in(wholes[name]):
            free[name] = free[name].minus(requests[0].needs).elementwise_max(ResourceAmount())
        return
    wholes = wholes if len(requests) == 1 else dict(wholes)
    all_needs = [request.needs for request in requests]
    for needs in sorted(all_needs, key=lambda needs: (needs.gpu, needs.memory), reverse=True):
        spot = _find_emptiest_node(needs, wholes, free)
        if spot is None:
            continue
        if len(requests) > 1:
            wholes[spot] = wholes[spot].minus(needs)
        free[spot] = free[spot].minus(needs).elementwise_max(ResourceAmount())


def _find_emptiest_node(
    needs: ResourceAmount, wholes: Mapping[str, ResourceAmount], free: Mapping[str, ResourceAmount]
) -> str | None:
    """Find the emptiest node that is large enough; a plain loop, since placing spends most of its time here."""
    found: str | None = None
    most: tuple[int, float, int] = (0, 0.0, 0)
    cpu, memory, gpu = needs.cpu - EPSILON, needs.memory, needs.gpu
    for name, whole in wholes.items():
        if cpu <= whole.cpu and memory <= whole.memory and gpu <= whole.gpu:
            left = free[name]
            size = (left.gpu, left.cpu, left.memory)
            if found is None or size > most:
                found, most = name, size
    return found


def is_exhausted(free: Mapping[str, ResourceAmount]) -> bool:
    return all(amount.cpu <= EPSILON or amount.memory <= 0 for amount in free.values())
