"""What-if checks: finds changes that would start a waiting job now, by applying the queue's rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TypeVar

from ..attempt_id import parse_job_id
from ..job import GIB, MIB
from ..messages import join_messages, msg
from .ledger import ClusterUsage, Ledger
from .placement import QueueEntry, Quota, ResourceAmount, TaskRequest, format_bytes, format_cores, format_gpus
from .queue import Queue
from .queue_scan import QueueScan

MAX_CHECK_BUDGET = 30_000  # checks of a task against a node, in total
MAX_SHRUNK_TASKS = 200  # larger jobs are not shrunk
_CHECK_COST = 4  # base cost of a check
_RESOURCE_KINDS = ("gpu", "cpu", "memory")

T = TypeVar("T", int, float)


class CheckBudget:
    """A budget for checks, so that one request does not block others."""

    def __init__(self, most: int = MAX_CHECK_BUDGET) -> None:
        self._left = most

    def spend_check(self, waiting: QueueEntry, room: ClusterUsage) -> bool:
        """Spend one check; False when the budget is used up."""
        self._left -= _CHECK_COST + len(waiting.requests) * len(room.nodes)
        return self._left >= 0


def scan_queue_up_to(
    waiting: QueueEntry, queue: Queue, room: ClusterUsage, effort: CheckBudget, *, without: Collection[str] = ()
) -> QueueScan | None:
    """`room` changes: pass a copy. `without`: ids of jobs to skip. None if too many jobs are ahead."""
    walk = QueueScan(room)
    key = (waiting.key, waiting.id)
    for other in queue.iter_entries(walk.closed_groups):
        if (other.key, other.id) >= key:
            break
        if not effort.spend_check(other, room):
            return None
        if other.job_id in without:
            continue
        spots = walk.find_or_reserve_nodes(other)
        if spots is None:
            walk.blocked_entries.append(other)
        else:
            walk.reserve(other, spots)
            for request, spot in zip(other.requests, spots, strict=True):
                room.apply_request(other, request, spot, +1)
    return walk


def would_start_with_change(
    waiting: QueueEntry,
    queue: Queue,
    ledger: Ledger,
    change: Callable[[ClusterUsage], None],
    effort: CheckBudget,
    *,
    without: Collection[str] = (),
) -> bool:
    """Whether it would start after `change` to the usage and without these jobs in the queue."""
    room = ledger.copy()
    change(room)
    walk = scan_queue_up_to(waiting, queue, room, effort, without=without)
    return walk is not None and effort.spend_check(waiting, room) and walk.would_start(waiting)


def list_blocked_entries_ahead(waiting: QueueEntry, queue: Queue, ledger: Ledger) -> list[QueueEntry]:
    """Return blocked entries ahead of it, in order; none if too many are ahead."""
    walk = scan_queue_up_to(waiting, queue, ledger.copy(), CheckBudget())
    return [other for other in walk.blocked_entries if other.job_id != waiting.job_id] if walk else []


def build_job_removal(ledger: Ledger, jobs: Iterable[str]) -> Callable[[ClusterUsage], None]:
    gone = set(jobs)

    def remove_jobs(room: ClusterUsage) -> None:
        for id, spot in ledger.assignments.items():
            if parse_job_id(id) in gone:
                room.apply_assignment(spot, -1)

    return remove_jobs


def build_quota_change(group: str, of_group: Quota, of_user: Quota) -> Callable[[ClusterUsage], None]:
    def replace_quotas(room: ClusterUsage) -> None:
        room.quotas = {**room.quotas, group: (of_group, of_user)}

    return replace_quotas


# -- smaller requests


@dataclass(frozen=True, slots=True)
class SmallerRequest:
    """A smaller request that would start now, if submitted again at the end of the queue."""

    waiting: QueueEntry
    text: str


def find_smaller_requests(
    waiting: QueueEntry, queue: Queue, ledger: Ledger, effort: CheckBudget
) -> list[SmallerRequest]:
    """Return smaller requests: one for each resource, else of several together; and fewer tasks."""
    if len(waiting.requests) > MAX_SHRUNK_TASKS:
        return []
    anew = replace(waiting, order=(inf, waiting.id))
    walk = scan_queue_up_to(anew, queue, ledger.copy(), effort, without=(waiting.job_id,))
    if walk is None:
        return []
    shrinking = _RequestShrinker(anew, walk, effort)
    found = [less for kind in _RESOURCE_KINDS if (less := shrinking.find_least_change([kind]))]
    if not found and (less := shrinking.find_least_change(_RESOURCE_KINDS)):
        found = [less]
    fewer = _find_fewer_tasks(anew, walk, effort)
    return [*found, fewer] if fewer else found


def _find_fewer_tasks(anew: QueueEntry, walk: QueueScan, effort: CheckBudget) -> SmallerRequest | None:
    """Return a request with fewer tasks, if all are alike."""
    first, count = anew.requests[0], len(anew.requests)
    if any((each.amount, each.asked, each.ports) != (first.amount, first.asked, first.ports) for each in anew.requests):
        return None

    def would_start_with(tasks: int) -> bool:
        fewer = replace(anew, requests=anew.requests[:tasks])
        return effort.spend_check(fewer, walk.usage) and walk.would_start(fewer)

    fits = _find_largest(range(1, count), would_start_with)
    if fits is None:
        return None
    text = msg("It would start now with {fits} tasks instead of {count}.", fits=fits, count=count)
    if fits == 1:
        text = msg("It would start now with one task instead of {count}.", count=count)
    return SmallerRequest(replace(anew, requests=anew.requests[:fits]), text)


class _RequestShrinker:
    def __init__(self, anew: QueueEntry, walk: QueueScan, effort: CheckBudget) -> None:
        self._anew = anew
        self._walk = walk
        self._effort = effort
        self._most = {kind: max(getattr(each.amount, kind) for each in anew.requests) for kind in _RESOURCE_KINDS}

    def find_least_change(self, kinds: Sequence[str]) -> SmallerRequest | None:
        """Return the request with as much of each resource as still starts."""
        steps = {kind: list(_iter_smaller_values(kind, self._most[kind])) for kind in kinds}
        steps = {kind: values for kind, values in steps.items() if values}
        caps = {kind: values[0] for kind, values in steps.items()}
        if not caps or not self._would_start_with_caps(caps):
            return None
        for kind, values in steps.items():
            caps[kind] = self._raise_cap(caps, kind, [*values, self._most[kind]])
        caps = {kind: cap for kind, cap in caps.items() if cap < self._most[kind]}
        return SmallerRequest(self._cap_requests(caps), self._describe_caps(caps)) if caps else None

    def _raise_cap(self, caps: dict[str, float], kind: str, values: Sequence[float]) -> float:
        found = _find_largest(values, lambda value: self._would_start_with_caps({**caps, kind: value}))
        return caps[kind] if found is None else found

    def _would_start_with_caps(self, caps: dict[str, float]) -> bool:
        return self._effort.spend_check(self._anew, self._walk.usage) and self._walk.would_start(
            self._cap_requests(caps)
        )

    def _cap_requests(self, caps: dict[str, float]) -> QueueEntry:
        return replace(self._anew, requests=tuple(_cap_request(each, caps) for each in self._anew.requests))

    def _describe_caps(self, caps: dict[str, float]) -> str:
        if len(self._anew.requests) == 1:
            pairs = (
                msg(
                    "{kind} instead of {current}",
                    kind=_format_value(kind, cap),
                    current=_format_bare_value(kind, self._most[kind]),
                )
                for kind, cap in caps.items()
            )
            return msg("It would start now if it requested {pairs}.", pairs=join_messages(", ", pairs))
        most = join_messages(", ", (_format_value(kind, cap) for kind, cap in caps.items()))
        return msg("It would start now if no task requested more than {limit}.", limit=most)


def _cap_request(request: TaskRequest, caps: dict[str, float]) -> TaskRequest:
    def cap_amount(amount: ResourceAmount) -> ResourceAmount:
        return replace(amount, **{kind: min(getattr(amount, kind), cap) for kind, cap in caps.items()})

    return replace(
        request, amount=cap_amount(request.amount), asked=cap_amount(request.asked) if request.asked else None
    )


def _iter_smaller_values(kind: str, most: float) -> Iterator[float]:
    """Yield smaller common values, smallest first. Never zero: that would be another job."""
    if kind == "gpu":
        yield from range(1, int(most))
    elif kind == "cpu":
        yield from (tenths / 10 for tenths in range(1, ceil(most * 10)) if tenths / 10 < most)
    else:
        tenths = 1 if most < 512 * GIB else 10
        sizes = {ceil(count * GIB / 10) for count in range(tenths, ceil(most * 10 / GIB), tenths)}
        yield from (size for size in sorted({128 * MIB, 256 * MIB, 512 * MIB} | sizes) if size < most)


def _find_largest(values: Sequence[T], works: Callable[[T], bool]) -> T | None:
    """Find the largest value that works, by bisection."""
    low, high = 0, len(values) - 1
    best: T | None = None
    while low <= high:
        middle = (low + high) // 2
        if works(values[middle]):
            best, low = values[middle], middle + 1
        else:
            high = middle - 1
    return best


def _format_value(kind: str, value: float) -> str:
    if kind == "gpu":
        return format_gpus(int(value))
    return format_cores(value) if kind == "cpu" else msg("{value} of memory", value=format_bytes(int(value)))


def _format_bare_value(kind: str, value: float) -> str:
    return format_bytes(int(value)) if kind == "memory" else f"{value:g}"
