"""When a job that waits will start, and what that rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf

from ..attempt_id import job_id_of
from ..messages import join_messages, msg
from .backfill import LOOKS_OF_FORECAST, NEVER, TimeEstimates, reserved_starts
from .blockers import About, Estimate, show_instant
from .ledger import Ledger
from .placement import Waiting
from .queue import Queue
from .what_if import MAX_EFFORT

MIN_LOOKS = 100  # at jobs, however many machines there are to look at for each
ROOM_NOW = msg("There is room for it.")
LATEST = msg(
    "This is the latest time, if every job that runs or waits before it takes as long as its "
    "time limit allows. It becomes later if one of them is tried again or held, or if jobs "
    "of a higher priority come."
)
TOO_MANY = msg("It cannot be told: too many jobs wait before it.")


def estimate(
    waiting: Waiting,
    queue: Queue,
    ledger: Ledger,
    reckoning: TimeEstimates,
    *,
    now: datetime,
    name: Callable[[str], str],
    about: About = lambda _: None,
    usual: Mapping[str, float] | None = None,
) -> Estimate:
    """All that runs and waits takes as long as its time limit allows. `name`: how a job is called, by its id. `usual`:
    how many seconds jobs like these took before."""
    latest = _latest(waiting, queue, ledger, reckoning, now, name)
    if not usual:
        return latest
    at = _start(waiting, queue, ledger, _by_experience(reckoning, usual, about, now), now)
    if at is None or (latest.at is not None and at >= latest.at):
        return latest
    said = msg("Going by how long jobs of the same names took before, it starts at about {at}.", at=show_instant(at))
    return replace(latest, likely=at, basis=join_messages(" ", (latest.basis, said)))


def _latest(
    waiting: Waiting,
    queue: Queue,
    ledger: Ledger,
    reckoning: TimeEstimates,
    now: datetime,
    name: Callable[[str], str],
) -> Estimate:
    at = _start(waiting, queue, ledger, reckoning, now)
    if at is not None:
        return Estimate(at=at, basis=LATEST)
    endless = _endless(waiting, queue, ledger, reckoning)
    if endless is not None:
        return Estimate(at=None, basis=msg("It cannot be told: {endless} has no time limit.", endless=name(endless)))
    return Estimate(at=None, basis=TOO_MANY)


def _start(waiting: Waiting, queue: Queue, ledger: Ledger, reckoning: TimeEstimates, now: datetime) -> datetime | None:
    most = min(LOOKS_OF_FORECAST, max(MIN_LOOKS, MAX_EFFORT // max(1, len(ledger.nodes))))
    start = reserved_starts(queue, ledger, reckoning, most_looks=most).get(waiting.id)
    if start is None or start - reckoning.now >= NEVER / 2:
        return None
    return now + timedelta(seconds=start - reckoning.now)


def _by_experience(reckoning: TimeEstimates, usual: Mapping[str, float], about: About, now: datetime) -> TimeEstimates:
    """Each job takes as long as such jobs did; one that has taken longer already, as long as its time limit allows."""

    def ends(attempt_id: str) -> float | None:
        limit, job_id = reckoning.ends(attempt_id), job_id_of(attempt_id)
        known = about(job_id) if job_id in usual else None
        if known is None or known.since is None or known.held:
            return limit
        left = usual[job_id] - (now - known.since).total_seconds()
        return limit if left <= 0 else min(reckoning.now + left, inf if limit is None else limit)

    def longest(job_id: str) -> float | None:
        limit = reckoning.longest(job_id)
        return min(usual[job_id], inf if limit is None else limit) if job_id in usual else limit

    return TimeEstimates(reckoning.now, ends, longest)


def _endless(waiting: Waiting, queue: Queue, ledger: Ledger, reckoning: TimeEstimates) -> str | None:
    """A job that runs, else one that waits before it, and may take for ever; first those of its own group."""
    running = (job_id_of(id) for id in ledger.held if reckoning.ends(id) is None)
    mine = [job_id_of(id) for id, spot in ledger.held.items() if spot.group == waiting.group]
    return _first(running, before=mine) or _first(
        other.job_id for other in queue.before(waiting, 100) if reckoning.longest(other.job_id) is None
    )


def _first(jobs: Iterable[str], before: Iterable[str] = ()) -> str | None:
    found = list(dict.fromkeys(jobs))
    return next((job for job in before if job in found), next(iter(found), None))
