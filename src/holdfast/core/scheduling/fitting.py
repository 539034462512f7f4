"""Which machines take which tasks of a job, all together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .ledger import Room
from .placement import EPSILON, Amount, Request


def fit(requests: Sequence[Request], free: Mapping[str, Amount], room: Room) -> list[str] | None:
    """A machine for each, within what is `free`; None when they do not all fit."""
    if len(requests) == len(free) == 1:  # the usual case, and asked for often
        ((name, amount),) = free.items()
        return [name] if requests[0].needs.fits(amount) else None
    names = [name for name in free if name in room.nodes]
    spots = fit_amounts([request.needs for request in requests], [free[name] for name in names])
    return None if spots is None else [names[spot] for spot in spots]


def fit_amounts(amounts: Sequence[Amount], rooms: Sequence[Amount]) -> list[int] | None:
    """Largest first onto the fullest machine that still takes it, so that large holes stay whole."""
    left = list(rooms)
    spots = [-1] * len(amounts)
    for i in _largest_first(amounts):
        spot = _spot(amounts[i], left)
        if spot is None:
            return None
        left[spot] = left[spot].minus(amounts[i])
        spots[i] = spot
    return spots


def without_room(amounts: Sequence[Amount], rooms: Sequence[Amount]) -> tuple[list[Amount], list[Amount]]:
    """Those that find no room when the others have theirs, the largest first; and what is left of each room then."""
    left, failed = list(rooms), []
    for i in _largest_first(amounts):
        spot = _spot(amounts[i], left)
        if spot is None:
            failed.append(amounts[i])
        else:
            left[spot] = left[spot].minus(amounts[i])
    return failed, left


def _largest_first(amounts: Sequence[Amount]) -> list[int]:
    return sorted(range(len(amounts)), key=lambda i: (amounts[i].gpu, amounts[i].memory, amounts[i].cpu), reverse=True)


def _spot(amount: Amount, left: Sequence[Amount]) -> int | None:
    candidates = [j for j, room in enumerate(left) if amount.fits(room)]
    return min(candidates, key=lambda j: (left[j].gpu, left[j].cpu, left[j].memory, j), default=None)


def lacks_ports(requests: Sequence[Request], spots: Sequence[str], free_ports: Mapping[str, int]) -> bool:
    if not any(request.ports for request in requests):
        return False
    wanted: dict[str, int] = {}
    for request, spot in zip(requests, spots, strict=True):
        wanted[spot] = wanted.get(spot, 0) + request.port_count
    return any(count > free_ports[name] for name, count in wanted.items() if count)


def set_aside(requests: Sequence[Request], free: dict[str, Amount], room: Room) -> None:
    """Take a blocked job's needs out of what is free, on the machines where it could run one day."""
    if len(requests) == len(free) == 1:
        ((name, amount),) = free.items()
        free[name] = amount.minus(requests[0].needs).most(Amount())
        return
    wholes = room.wholes if len(requests) == 1 else dict(room.wholes)
    all_needs = [request.needs for request in requests]
    for needs in sorted(all_needs, key=lambda needs: (needs.gpu, needs.memory), reverse=True):
        spot = _emptiest(needs, wholes, free)
        if spot is None:
            continue
        if len(requests) > 1:
            wholes[spot] = wholes[spot].minus(needs)
        free[spot] = free[spot].minus(needs).most(Amount())


def _emptiest(needs: Amount, wholes: Mapping[str, Amount], free: Mapping[str, Amount]) -> str | None:
    """Of the machines that are large enough; a plain loop, as placing spends most of its time here."""
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


def exhausted(free: Mapping[str, Amount]) -> bool:
    return all(amount.cpu <= EPSILON or amount.memory <= 0 for amount in free.values())
