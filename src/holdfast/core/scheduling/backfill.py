"""Backfill: starts jobs ahead of others that wait, if their time limits delay none of them.

A forecast applies the queue's rules from now on, with every job using its full time limit. It gives every waiting job
its reserved start. A job that fits now is backfilled if it fits beside the forecast for its whole time limit, and a
second forecast with it running shows no other job starting later.

The work of one pass is bounded: jobs per group, and checks of jobs. If a forecast had to end early, only jobs that end
within it are backfilled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, merge
from math import inf
from typing import Generic, TypeVar

from .fitting import fit_requests, has_port_shortage, is_exhausted
from .ledger import ClusterUsage, Ledger
from .placement import Assignment, QueueEntry, ResourceAmount
from .queue import Queue
from .queue_scan import QueueScan

MAX_JOBS_PER_GROUP = 100  # jobs considered
MAX_CONSIDERED_JOBS = 300
MAX_FORECAST_CHECKS = 1_000
MAX_PASS_CHECKS = 3_000
UNLIMITED_DURATION = 1e9  # seconds: unlimited jobs end after all others
_TIME_TOLERANCE = 1e-6  # seconds

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimeEstimates:
    """Estimated times in monotonic seconds; None: unlimited."""

    now: float
    find_end: Callable[[str], float | None]  # placed task attempt -> its latest end
    find_max_duration: Callable[[str], float | None]  # waiting job -> its maximum duration

    def estimate_end(self, attempt_id: str) -> float:
        """Return the end of an attempt: now if it is overdue; if unlimited, before a waiting unlimited job would
        end."""
        end = self.find_end(attempt_id)
        return self.now + UNLIMITED_DURATION if end is None else max(end, self.now)

    def estimate_duration(self, waiting: QueueEntry) -> float:
        longest = self.find_max_duration(waiting.job_id)
        return 2 * UNLIMITED_DURATION if longest is None else longest


def iter_backfill_jobs(
    queue: Queue, ledger: Ledger, estimates: TimeEstimates, over: set[str]
) -> Iterator[tuple[QueueEntry, list[str]]]:
    """Yield the jobs to backfill after a scan of the queue. The caller starts each before requesting the next."""
    if is_exhausted(ledger.free):
        return
    entries = [
        each for each in queue.list_first_entries(MAX_JOBS_PER_GROUP, MAX_CONSIDERED_JOBS) if each.job_id not in over
    ]
    candidates = [
        each for each in entries if ledger.find_queue_node(each.engine) is None and _can_start_now(each, ledger)
    ]
    if not candidates:
        return
    scene = _ForecastInput.from_ledger(ledger, entries, estimates)
    forecast = Forecast(scene, estimates)
    looks = forecast.checks
    for waiting in candidates:
        spots = forecast.find_backfill_nodes(waiting) if looks < MAX_PASS_CHECKS else None
        if spots is None:
            continue
        changed = scene.with_running(waiting, spots, estimates)
        trial = Forecast(changed, estimates, until=forecast.horizon)
        looks += trial.checks
        if not trial.delays_other_jobs(forecast, but=waiting):
            yield waiting, spots
            scene, forecast = changed, trial


def compute_reserved_starts(
    queue: Queue, ledger: Ledger, estimates: TimeEstimates, *, most_looks: int | None = None
) -> dict[str, float]:
    """Return the latest start of waiting jobs by all time limits, if no other job is submitted; limited by `most_looks`
    checks."""
    scene = _ForecastInput.from_ledger(
        ledger, queue.list_first_entries(MAX_JOBS_PER_GROUP, MAX_CONSIDERED_JOBS), estimates
    )
    return Forecast(scene, estimates, most_looks=most_looks).starts


def _can_start_now(waiting: QueueEntry, room: ClusterUsage) -> bool:
    group_quota, user_quota = room.get_quotas(waiting.group)
    total = waiting.total
    return (
        group_quota.allows(room.get_group_usage(waiting.group), total)
        and user_quota.allows(room.get_user_usage(waiting.group, waiting.user), total)
        and fit_requests(waiting, room.free, room) is not None
    )


@dataclass(frozen=True, slots=True)
class _ForecastRun:
    """A job that the forecast has started."""

    waiting: QueueEntry
    spots: Sequence[str]

    def apply_to_usage(self, room: ClusterUsage, sign: int) -> None:
        for request, spot in zip(self.waiting.requests, self.spots, strict=True):
            room.apply_request(self.waiting, request, spot, sign)


_NumberedEntry = tuple[int, QueueEntry]  # position in the queue
_RunEnd = tuple[float, int, "Assignment | _ForecastRun"]  # time, tie breaker, what ends


@dataclass(frozen=True, slots=True)
class _ForecastInput:
    """The starting state of a forecast."""

    usage: ClusterUsage
    ends: list[_RunEnd]  # a heap
    entries_by_group: dict[str, list[_NumberedEntry]]  # waiting entries, by group

    @staticmethod
    def from_ledger(ledger: Ledger, waiting: list[QueueEntry], estimates: TimeEstimates) -> _ForecastInput:
        lines: dict[str, list[_NumberedEntry]] = {}
        for numbered in enumerate(waiting):
            lines.setdefault(numbered[1].group, []).append(numbered)
        ends: list[_RunEnd] = [
            (estimates.estimate_end(id), n, held) for n, (id, held) in enumerate(ledger.assignments.items())
        ]
        heapify(ends)
        return _ForecastInput(ledger.copy(), ends, lines)

    def with_running(self, waiting: QueueEntry, spots: Sequence[str], estimates: TimeEstimates) -> _ForecastInput:
        room, ends, run = self.usage.copy(), list(self.ends), _ForecastRun(waiting, spots)
        run.apply_to_usage(room, +1)
        heappush(ends, (estimates.now + estimates.estimate_duration(waiting), len(ends), run))
        line = [each for each in self.entries_by_group[waiting.group] if each[1].id != waiting.id]
        return _ForecastInput(room, ends, {**self.entries_by_group, waiting.group: line})


class Forecast:
    """A simulation of the queue's rules from a starting state."""

    def __init__(
        self, scene: _ForecastInput, estimates: TimeEstimates, until: float = inf, *, most_looks: int | None = None
    ) -> None:
        self.starts: dict[str, float] = {}
        self.horizon = inf  # the forecast ends here
        self.checks = 0
        self._max_checks = MAX_FORECAST_CHECKS if most_looks is None else most_looks
        self._estimates = estimates
        self._initial_usage = scene.usage
        self._usage = scene.usage.copy()
        self._ends = list(scene.ends)
        self._queues = dict(scene.entries_by_group)
        self._blocked_groups: set[str] = set()  # groups blocked by their quota until one of their jobs ends
        self._most_used: _WorstValues[ResourceAmount] = _WorstValues(
            ResourceAmount.elementwise_max
        )  # by group, and by group and user
        self._least_free: _WorstValues[ResourceAmount] = _WorstValues(ResourceAmount.elementwise_min)  # by node
        self._fewest_ports: _WorstValues[int] = _WorstValues(min)
        self._run_forecast(until)

    def find_backfill_nodes(self, waiting: QueueEntry) -> list[str] | None:
        """Find nodes with capacity for it until it ends, or until its planned start, beside all planned jobs."""
        end = min(self._estimates.now + self._estimates.estimate_duration(waiting), self.starts.get(waiting.id, inf))
        if end > self.horizon:
            return None
        group, user, room, total = waiting.group, waiting.user, self._initial_usage, waiting.total
        group_quota, user_quota = room.get_quotas(group)
        if not group_quota.allows(self._most_used.get_worst_before(end, group, room.get_group_usage(group)), total):
            return None
        if not user_quota.allows(
            self._most_used.get_worst_before(end, (group, user), room.get_user_usage(group, user)), total
        ):
            return None
        free = {name: self._least_free.get_worst_before(end, name, amount) for name, amount in room.free.items()}
        spots = fit_requests(waiting, free, room)
        ports = {name: self._fewest_ports.get_worst_before(end, name, count) for name, count in room.free_ports.items()}
        return None if spots is None or has_port_shortage(waiting.requests, spots, ports) else spots

    def delays_other_jobs(self, other: Forecast, but: QueueEntry) -> bool:
        if self.horizon < other.horizon:
            return True
        return any(
            self.starts.get(id, inf) > start + _TIME_TOLERANCE for id, start in other.starts.items() if id != but.id
        )

    def _run_forecast(self, until: float) -> None:
        while self._queues and self._ends and self._ends[0][0] <= until:
            now = self._ends[0][0]
            if self.checks > self._max_checks:
                self.horizon = now
                return
            while self._ends and self._ends[0][0] <= now:
                self._end_run(heappop(self._ends)[2])
            self._scan_queue(now)
        self.horizon = until

    def _end_run(self, what: Assignment | _ForecastRun) -> None:
        if isinstance(what, _ForecastRun):
            what.apply_to_usage(self._usage, -1)
            self._blocked_groups.discard(what.waiting.group)
        else:
            self._usage.apply_assignment(what, -1)
            self._blocked_groups.discard(what.group)

    def _scan_queue(self, now: float) -> None:
        walk = QueueScan(self._usage)
        walk.closed_groups |= self._blocked_groups
        moved: set[str] = set()
        for _, waiting in merge(
            *(self._iter_group(group, walk) for group in self._queues if group not in self._blocked_groups)
        ):
            if waiting.group in walk.closed_groups:
                continue
            if walk.is_exhausted():
                break
            self.checks += 1
            spots = walk.find_or_reserve_nodes(waiting)
            if spots is not None:
                walk.reserve(waiting, spots)
                self._start_run(_ForecastRun(waiting, spots), now)
                moved.add(waiting.group)
        self._blocked_groups = walk.closed_groups - walk.starved_groups
        for group in moved:
            self._queues[group] = [each for each in self._queues[group] if each[1].id not in self.starts]
            if not self._queues[group]:
                del self._queues[group]

    def _iter_group(self, group: str, walk: QueueScan) -> Iterator[_NumberedEntry]:
        for each in self._queues[group]:
            if group in walk.closed_groups:
                return
            yield each

    def _start_run(self, run: _ForecastRun, now: float) -> None:
        waiting, room = run.waiting, self._usage
        run.apply_to_usage(room, +1)
        self.starts[waiting.id] = now
        heappush(self._ends, (now + self._estimates.estimate_duration(waiting), -len(self.starts), run))
        group, user = waiting.group, waiting.user
        self._most_used.add_value(now, group, room.get_group_usage(group))
        self._most_used.add_value(now, (group, user), room.get_user_usage(group, user))
        for spot in (name for name in run.spots if name in room.free):
            self._least_free.add_value(now, spot, room.free[spot])
            self._fewest_ports.add_value(now, spot, room.free_ports[spot])


class _WorstValues(Generic[T]):
    """The worst value so far for each key, over time."""

    def __init__(self, worse: Callable[[T, T], T]) -> None:
        self._worse = worse
        self._steps: dict[Hashable, tuple[list[float], list[T]]] = {}

    def add_value(self, at: float, key: Hashable, value: T) -> None:
        times, values = self._steps.setdefault(key, ([], []))
        worst = self._worse(values[-1], value) if values else value
        if not values or worst != values[-1]:
            times.append(at)
            values.append(worst)

    def get_worst_before(self, at: float, key: Hashable, first: T) -> T:
        """Return the worst value before that time; `first` is the initial one."""
        times, values = self._steps.get(key, ((), ()))
        known = bisect_left(times, at)
        return self._worse(first, values[known - 1]) if known else first
