"""What would make a job that waits start at once: each answer is tried by the queue's own rules, none is guessed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TypeVar

from ..attempt_id import job_id_of
from ..job import GIB, MIB
from ..messages import join_messages, msg
from .ledger import Ledger, Room
from .placement import Amount, Quota, Request, Waiting, show_bytes, show_cores, show_gpus
from .queue import Queue
from .queue_scan import Walk

MAX_EFFORT = 30_000  # looks of a task at a machine, for all that is tried; beyond that nothing is claimed
MAX_TASKS = 200  # of a job for which less is tried
_LOOK = 4  # what a look costs by itself
_KINDS = ("gpu", "cpu", "memory")

T = TypeVar("T", int, float)


class Effort:
    """How much may still be tried: whoever asks must not keep others waiting."""

    def __init__(self, most: int = MAX_EFFORT) -> None:
        self._left = most

    def allows(self, waiting: Waiting, room: Room) -> bool:
        """One more look at it; from then on it counts."""
        self._left -= _LOOK + len(waiting.requests) * len(room.nodes)
        return self._left >= 0


def walk_up_to(
    waiting: Waiting, queue: Queue, room: Room, effort: Effort, *, without: Collection[str] = ()
) -> Walk | None:
    """The walk over the queue as it is when the turn of `waiting` comes. `room` changes: give a copy. `without`: ids of
    jobs that are passed by. None where too many stand before it to tell."""
    walk = Walk(room)
    key = (waiting.key, waiting.id)
    for other in queue.walk(walk.closed):
        if (other.key, other.id) >= key:
            break
        if not effort.allows(other, room):
            return None
        if other.job_id in without:
            continue
        spots = walk.look(other)
        if spots is None:
            walk.stuck.append(other)
        else:
            walk.took(other, spots)
            for request, spot in zip(other.requests, spots, strict=True):
                room.count_request(other, request, spot, +1)
    return walk


def starts_if(
    waiting: Waiting,
    queue: Queue,
    ledger: Ledger,
    change: Callable[[Room], None],
    effort: Effort,
    *,
    without: Collection[str] = (),
) -> bool:
    """Whether its turn would come and it would start, were `change` made to what is in use, and these jobs not in the
    queue."""
    room = ledger.copy()
    change(room)
    walk = walk_up_to(waiting, queue, room, effort, without=without)
    return walk is not None and effort.allows(waiting, room) and walk.would_start(waiting)


def stuck_before(waiting: Waiting, queue: Queue, ledger: Ledger) -> list[Waiting]:
    """Those that go before it and do not start either, in order; none where too many stand before it to tell."""
    walk = walk_up_to(waiting, queue, ledger.copy(), Effort())
    return [other for other in walk.stuck if other.job_id != waiting.job_id] if walk else []


def without_jobs(ledger: Ledger, jobs: Iterable[str]) -> Callable[[Room], None]:
    """As if these jobs had ended."""
    gone = set(jobs)

    def change(room: Room) -> None:
        for id, spot in ledger.held.items():
            if job_id_of(id) in gone:
                room.count(spot, -1)

    return change


def with_quotas(group: str, of_group: Quota, of_user: Quota) -> Callable[[Room], None]:
    def change(room: Room) -> None:
        room.quotas = {**room.quotas, group: (of_group, of_user)}

    return change


# -- asking for less


@dataclass(frozen=True, slots=True)
class Less:
    """A smaller wish that would start now, submitted anew: behind all that waits."""

    waiting: Waiting
    text: str


def ask_for_less(waiting: Waiting, queue: Queue, ledger: Ledger, effort: Effort) -> list[Less]:
    """One for each resource of which less would be enough, else of several together; and for fewer tasks."""
    if len(waiting.requests) > MAX_TASKS:
        return []
    anew = replace(waiting, order=(inf, waiting.id))
    walk = walk_up_to(anew, queue, ledger.copy(), effort, without=(waiting.job_id,))
    if walk is None:
        return []
    shrinking = _Shrinking(anew, walk, effort)
    found = [less for kind in _KINDS if (less := shrinking.least_change([kind]))]
    if not found and (less := shrinking.least_change(_KINDS)):
        found = [less]
    fewer = _fewer_tasks(anew, walk, effort)
    return [*found, fewer] if fewer else found


def _fewer_tasks(anew: Waiting, walk: Walk, effort: Effort) -> Less | None:
    """Of tasks that are all alike."""
    first, count = anew.requests[0], len(anew.requests)
    if any((each.amount, each.asked, each.ports) != (first.amount, first.asked, first.ports) for each in anew.requests):
        return None

    def starts(tasks: int) -> bool:
        fewer = replace(anew, requests=anew.requests[:tasks])
        return effort.allows(fewer, walk.room) and walk.would_start(fewer)

    fits = _largest(range(1, count), starts)
    if fits is None:
        return None
    text = msg("With {fits} tasks instead of {count} it would start now.", fits=fits, count=count)
    if fits == 1:
        text = msg("With one task instead of {count} it would start now.", count=count)
    return Less(replace(anew, requests=anew.requests[:fits]), text)


class _Shrinking:
    def __init__(self, anew: Waiting, walk: Walk, effort: Effort) -> None:
        self._anew = anew
        self._walk = walk
        self._effort = effort
        self._most = {kind: max(getattr(each.amount, kind) for each in anew.requests) for kind in _KINDS}

    def least_change(self, kinds: Sequence[str]) -> Less | None:
        """With as much of each kind as still starts, starting from the least of all."""
        steps = {kind: list(_steps(kind, self._most[kind])) for kind in kinds}
        steps = {kind: values for kind, values in steps.items() if values}
        caps = {kind: values[0] for kind, values in steps.items()}
        if not caps or not self._starts(caps):
            return None
        for kind, values in steps.items():
            caps[kind] = self._raised(caps, kind, [*values, self._most[kind]])
        caps = {kind: cap for kind, cap in caps.items() if cap < self._most[kind]}
        return Less(self._capped(caps), self._text(caps)) if caps else None

    def _raised(self, caps: dict[str, float], kind: str, values: Sequence[float]) -> float:
        found = _largest(values, lambda value: self._starts({**caps, kind: value}))
        return caps[kind] if found is None else found

    def _starts(self, caps: dict[str, float]) -> bool:
        return self._effort.allows(self._anew, self._walk.room) and self._walk.would_start(self._capped(caps))

    def _capped(self, caps: dict[str, float]) -> Waiting:
        return replace(self._anew, requests=tuple(_capped(each, caps) for each in self._anew.requests))

    def _text(self, caps: dict[str, float]) -> str:
        if len(self._anew.requests) == 1:
            pairs = (
                msg("{kind} instead of {kind2}", kind=_show(kind, cap), kind2=_bare(kind, self._most[kind]))
                for kind, cap in caps.items()
            )
            return msg("If it asked for {pairs}, it would start now.", pairs=join_messages(", ", pairs))
        most = join_messages(", ", (_show(kind, cap) for kind, cap in caps.items()))
        return msg("If no task asked for more than {most}, it would start now.", most=most)


def _capped(request: Request, caps: dict[str, float]) -> Request:
    def cut(amount: Amount) -> Amount:
        return replace(amount, **{kind: min(getattr(amount, kind), cap) for kind, cap in caps.items()})

    return replace(request, amount=cut(request.amount), asked=cut(request.asked) if request.asked else None)


def _steps(kind: str, most: float) -> Iterator[float]:
    """What people would write that is less, the least first. Never none: it would be another job."""
    if kind == "gpu":
        yield from range(1, int(most))
    elif kind == "cpu":
        yield from (tenths / 10 for tenths in range(1, ceil(most * 10)) if tenths / 10 < most)
    else:
        tenths = 1 if most < 512 * GIB else 10
        sizes = {ceil(count * GIB / 10) for count in range(tenths, ceil(most * 10 / GIB), tenths)}
        yield from (size for size in sorted({128 * MIB, 256 * MIB, 512 * MIB} | sizes) if size < most)


def _largest(values: Sequence[T], works: Callable[[T], bool]) -> T | None:
    """The largest that works, by halving; what is found was tried."""
    low, high = 0, len(values) - 1
    best: T | None = None
    while low <= high:
        middle = (low + high) // 2
        if works(values[middle]):
            best, low = values[middle], middle + 1
        else:
            high = middle - 1
    return best


def _show(kind: str, value: float) -> str:
    if kind == "gpu":
        return show_gpus(int(value))
    return show_cores(value) if kind == "cpu" else msg("{value} of memory", value=show_bytes(int(value)))


def _bare(kind: str, value: float) -> str:
    return show_bytes(int(value)) if kind == "memory" else f"{value:g}"
