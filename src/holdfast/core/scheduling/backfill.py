"""Which jobs may pass others that wait, because by their time limits they delay none of them.

A forecast plays the queue's own rules forward from now: all that runs and waits takes as long as its time limit allows.
It gives every waiting job its reserved start. A job that has room now may pass when it fits, for all its time, beside
what the forecast has planned, and a second forecast with it running shows no other job starting later.

The work of one pass is bounded: so many jobs of a group, so many looks at jobs. Where a forecast had to end early, only
what ends within it may pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, merge
from math import inf
from typing import Generic, TypeVar

from .fitting import exhausted, fit, lacks_ports
from .ledger import Ledger, Room
from .placement import Amount, Assignment, Waiting
from .queue import Queue
from .queue_scan import Walk

OF_EACH_GROUP = 100  # jobs that are reckoned with
IN_ALL = 300
LOOKS_OF_FORECAST = 1_000
LOOKS_OF_PASS = 3_000
NEVER = 1e9  # seconds: what has no time limit ends after all else
_SLACK = 1e-6  # seconds

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimeEstimates:
    """Times, in seconds of a clock that does not jump; None: without limit."""

    now: float
    ends: Callable[[str], float | None]  # task attempt that holds a place -> when it must be gone
    longest: Callable[[str], float | None]  # job that waits -> how long it may hold a place

    def end_of(self, attempt_id: str) -> float:
        """What should be gone already ends now; without a limit, before a waiting job without one would."""
        end = self.ends(attempt_id)
        return self.now + NEVER if end is None else max(end, self.now)

    def span_of(self, waiting: Waiting) -> float:
        longest = self.longest(waiting.job_id)
        return 2 * NEVER if longest is None else longest


def may_pass(
    queue: Queue, ledger: Ledger, reckoning: TimeEstimates, over: set[str]
) -> Iterator[tuple[Waiting, list[str]]]:
    """After a walk over the queue: those that may start all the same. The caller starts each before asking for more."""
    if exhausted(ledger.free):
        return
    entries = [each for each in queue.first(OF_EACH_GROUP, IN_ALL) if each.job_id not in over]
    candidates = [each for each in entries if _fits(each, ledger)]
    if not candidates:
        return
    scene = _Scene.of(ledger, entries, reckoning)
    forecast = Forecast(scene, reckoning)
    looks = forecast.looks
    for waiting in candidates:
        spots = forecast.gap_for(waiting) if looks < LOOKS_OF_PASS else None
        if spots is None:
            continue
        changed = scene.with_running(waiting, spots, reckoning)
        trial = Forecast(changed, reckoning, until=forecast.horizon)
        looks += trial.looks
        if not trial.delays_any_of(forecast, but=waiting):
            yield waiting, spots
            scene, forecast = changed, trial


def reserved_starts(
    queue: Queue, ledger: Ledger, reckoning: TimeEstimates, *, most_looks: int | None = None
) -> dict[str, float]:
    """When the jobs that wait start at the latest, if nobody comes before them, by the time limits of all; of as many
    as so many looks at jobs tell."""
    scene = _Scene.of(ledger, queue.first(OF_EACH_GROUP, IN_ALL), reckoning)
    return Forecast(scene, reckoning, most_looks=most_looks).starts


def _fits(waiting: Waiting, room: Room) -> bool:
    group_quota, user_quota = room.quota_of(waiting.group)
    total = waiting.total
    return (
        group_quota.allows(room.used_by(waiting.group), total)
        and user_quota.allows(room.used_by_user(waiting.group, waiting.user), total)
        and fit(waiting.requests, room.free, room) is not None
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Something that the forecast has started."""

    waiting: Waiting
    spots: Sequence[str]

    def count(self, room: Room, sign: int) -> None:
        for request, spot in zip(self.waiting.requests, self.spots, strict=True):
            room.count_request(self.waiting, request, spot, sign)


_Numbered = tuple[int, Waiting]  # its turn
_End = tuple[float, int, "Assignment | _Run"]  # when, a number that settles ties, what


@dataclass(frozen=True, slots=True)
class _Scene:
    """How things stand now."""

    room: Room
    ends: list[_End]  # a heap
    lines: dict[str, list[_Numbered]]  # what waits, by group

    @staticmethod
    def of(ledger: Ledger, waiting: list[Waiting], reckoning: TimeEstimates) -> _Scene:
        lines: dict[str, list[_Numbered]] = {}
        for numbered in enumerate(waiting):
            lines.setdefault(numbered[1].group, []).append(numbered)
        ends: list[_End] = [(reckoning.end_of(id), n, held) for n, (id, held) in enumerate(ledger.held.items())]
        heapify(ends)
        return _Scene(ledger.copy(), ends, lines)

    def with_running(self, waiting: Waiting, spots: Sequence[str], reckoning: TimeEstimates) -> _Scene:
        room, ends, run = self.room.copy(), list(self.ends), _Run(waiting, spots)
        run.count(room, +1)
        heappush(ends, (reckoning.now + reckoning.span_of(waiting), len(ends), run))
        line = [each for each in self.lines[waiting.group] if each[1].id != waiting.id]
        return _Scene(room, ends, {**self.lines, waiting.group: line})


class Forecast:
    """The queue's rules played forward from a scene."""

    def __init__(
        self, scene: _Scene, reckoning: TimeEstimates, until: float = inf, *, most_looks: int | None = None
    ) -> None:
        self.starts: dict[str, float] = {}
        self.horizon = inf  # what comes from here on is not known
        self.looks = 0
        self._most_looks = LOOKS_OF_FORECAST if most_looks is None else most_looks
        self._reckoning = reckoning
        self._before = scene.room
        self._room = scene.room.copy()
        self._ends = list(scene.ends)
        self._lines = dict(scene.lines)
        self._stuck: set[str] = set()  # groups that their own quota stops until something of theirs ends
        self._most_used: _Worst[Amount] = _Worst(Amount.most)  # by group, and by group and user
        self._least_free: _Worst[Amount] = _Worst(Amount.least)  # by machine
        self._fewest_ports: _Worst[int] = _Worst(min)
        self._play(until)

    def gap_for(self, waiting: Waiting) -> list[str] | None:
        """Machines with room for it until it ends, or until the time planned for it, beside all that is planned."""
        end = min(self._reckoning.now + self._reckoning.span_of(waiting), self.starts.get(waiting.id, inf))
        if end > self.horizon:
            return None
        group, user, room, total = waiting.group, waiting.user, self._before, waiting.total
        group_quota, user_quota = room.quota_of(group)
        if not group_quota.allows(self._most_used.until(end, group, room.used_by(group)), total):
            return None
        if not user_quota.allows(self._most_used.until(end, (group, user), room.used_by_user(group, user)), total):
            return None
        free = {name: self._least_free.until(end, name, amount) for name, amount in room.free.items()}
        spots = fit(waiting.requests, free, room)
        ports = {name: self._fewest_ports.until(end, name, count) for name, count in room.free_ports.items()}
        return None if spots is None or lacks_ports(waiting.requests, spots, ports) else spots

    def delays_any_of(self, other: Forecast, but: Waiting) -> bool:
        if self.horizon < other.horizon:
            return True
        return any(self.starts.get(id, inf) > start + _SLACK for id, start in other.starts.items() if id != but.id)

    def _play(self, until: float) -> None:
        while self._lines and self._ends and self._ends[0][0] <= until:
            now = self._ends[0][0]
            if self.looks > self._most_looks:
                self.horizon = now
                return
            while self._ends and self._ends[0][0] <= now:
                self._end(heappop(self._ends)[2])
            self._walk(now)
        self.horizon = until

    def _end(self, what: Assignment | _Run) -> None:
        if isinstance(what, _Run):
            what.count(self._room, -1)
            self._stuck.discard(what.waiting.group)
        else:
            self._room.count(what, -1)
            self._stuck.discard(what.group)

    def _walk(self, now: float) -> None:
        walk = Walk(self._room)
        walk.closed |= self._stuck
        moved: set[str] = set()
        for _, waiting in merge(*(self._line(group, walk) for group in self._lines if group not in self._stuck)):
            if waiting.group in walk.closed:
                continue
            if exhausted(walk.open):
                break
            self.looks += 1
            spots = walk.look(waiting)
            if spots is not None:
                walk.took(waiting, spots)
                self._start(_Run(waiting, spots), now)
                moved.add(waiting.group)
        self._stuck = walk.closed - walk.short
        for group in moved:
            self._lines[group] = [each for each in self._lines[group] if each[1].id not in self.starts]
            if not self._lines[group]:
                del self._lines[group]

    def _line(self, group: str, walk: Walk) -> Iterator[_Numbered]:
        for each in self._lines[group]:
            if group in walk.closed:
                return
            yield each

    def _start(self, run: _Run, now: float) -> None:
        waiting, room = run.waiting, self._room
        run.count(room, +1)
        self.starts[waiting.id] = now
        heappush(self._ends, (now + self._reckoning.span_of(waiting), -len(self.starts), run))
        group, user = waiting.group, waiting.user
        self._most_used.note(now, group, room.used_by(group))
        self._most_used.note(now, (group, user), room.used_by_user(group, user))
        for spot in run.spots:
            self._least_free.note(now, spot, room.free[spot])
            self._fewest_ports.note(now, spot, room.free_ports[spot])


class _Worst(Generic[T]):
    """For each key, the worst value so far, as it changes over time."""

    def __init__(self, worse: Callable[[T, T], T]) -> None:
        self._worse = worse
        self._steps: dict[Hashable, tuple[list[float], list[T]]] = {}

    def note(self, at: float, key: Hashable, value: T) -> None:
        times, values = self._steps.setdefault(key, ([], []))
        worst = self._worse(values[-1], value) if values else value
        if not values or worst != values[-1]:
            times.append(at)
            values.append(worst)

    def until(self, at: float, key: Hashable, first: T) -> T:
        """The worst before that time; `first` is what it began with."""
        times, values = self._steps.get(key, ((), ()))
        known = bisect_left(times, at)
        return self._worse(first, values[known - 1]) if known else first
