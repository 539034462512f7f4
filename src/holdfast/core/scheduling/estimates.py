"""Estimated start of a waiting job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf

from ..attempt_id import parse_job_id
from ..messages import join_messages, msg
from .backfill import MAX_FORECAST_CHECKS, UNLIMITED_DURATION, TimeEstimates, compute_reserved_starts
from .blockers import ActiveJobLookup, Estimate, format_utc_time
from .ledger import Ledger
from .placement import QueueEntry
from .queue import Queue
from .what_if import MAX_CHECK_BUDGET

MIN_FORECAST_CHECKS = 100  # checks of jobs, independent of the number of nodes
RESOURCES_FREE_BASIS = msg("Enough resources are free.")
LATEST_START_BASIS = msg(
    "Latest start time if all running jobs and jobs ahead of it use their full time limits. Retries, holds and "
    "jobs of higher priority can delay it."
)
ENGINE_QUEUE_BASIS = msg("No estimate: the engine decides when its tasks run.")
TOO_MANY_JOBS_BASIS = msg("No estimate: too many jobs are ahead of it.")


def estimate_start(
    waiting: QueueEntry,
    queue: Queue,
    ledger: Ledger,
    estimates: TimeEstimates,
    *,
    now: datetime,
    name: Callable[[str], str],
    find_job: ActiveJobLookup = lambda _: None,
    usual: Mapping[str, float] | None = None,
) -> Estimate:
    """Every job uses its full time limit. `name`: formats a job id. `usual`: seconds that such jobs took before."""
    if ledger.find_queue_node(waiting.engine) is not None:
        return Estimate(at=None, basis=ENGINE_QUEUE_BASIS)
    latest = _estimate_latest(waiting, queue, ledger, estimates, now, name)
    if not usual:
        return latest
    at = _find_reserved_start(waiting, queue, ledger, _apply_usual_durations(estimates, usual, find_job, now), now)
    if at is None or (latest.at is not None and at >= latest.at):
        return latest
    message = msg("Based on earlier jobs with the same names, it starts at about {at}.", at=format_utc_time(at))
    return replace(latest, likely=at, basis=join_messages(" ", (latest.basis, message)))


def _estimate_latest(
    waiting: QueueEntry,
    queue: Queue,
    ledger: Ledger,
    estimates: TimeEstimates,
    now: datetime,
    name: Callable[[str], str],
) -> Estimate:
    at = _find_reserved_start(waiting, queue, ledger, estimates, now)
    if at is not None:
        return Estimate(at=at, basis=LATEST_START_BASIS)
    endless = _find_unlimited_job(waiting, queue, ledger, estimates)
    if endless is not None:
        return Estimate(at=None, basis=msg("No estimate: {job} has no time limit.", job=name(endless)))
    return Estimate(at=None, basis=TOO_MANY_JOBS_BASIS)


def _find_reserved_start(
    waiting: QueueEntry, queue: Queue, ledger: Ledger, estimates: TimeEstimates, now: datetime
) -> datetime | None:
    most = min(MAX_FORECAST_CHECKS, max(MIN_FORECAST_CHECKS, MAX_CHECK_BUDGET // max(1, len(ledger.nodes))))
    start = compute_reserved_starts(queue, ledger, estimates, most_looks=most).get(waiting.id)
    if start is None or start - estimates.now >= UNLIMITED_DURATION / 2:
        return None
    return now + timedelta(seconds=start - estimates.now)


def _apply_usual_durations(
    estimates: TimeEstimates, usual: Mapping[str, float], find_job: ActiveJobLookup, now: datetime
) -> TimeEstimates:
    """Use earlier durations of jobs; one that already runs longer uses its time limit."""

    def estimate_end(attempt_id: str) -> float | None:
        limit, job_id = estimates.find_end(attempt_id), parse_job_id(attempt_id)
        known = find_job(job_id) if job_id in usual else None
        if known is None or known.since is None or known.held:
            return limit
        left = usual[job_id] - (now - known.since).total_seconds()
        return limit if left <= 0 else min(estimates.now + left, inf if limit is None else limit)

    def get_max_duration(job_id: str) -> float | None:
        limit = estimates.find_max_duration(job_id)
        return min(usual[job_id], inf if limit is None else limit) if job_id in usual else limit

    return TimeEstimates(estimates.now, estimate_end, get_max_duration)


def _find_unlimited_job(waiting: QueueEntry, queue: Queue, ledger: Ledger, estimates: TimeEstimates) -> str | None:
    """Find a running job, else a waiting one ahead, without a time limit; jobs of its own group first."""
    running = (parse_job_id(id) for id in ledger.assignments if estimates.find_end(id) is None)
    mine = [parse_job_id(id) for id, spot in ledger.assignments.items() if spot.group == waiting.group]
    return _choose_first_job(running, before=mine) or _choose_first_job(
        other.job_id
        for other in queue.list_entries_ahead(waiting, 100)
        if estimates.find_max_duration(other.job_id) is None
    )


def _choose_first_job(jobs: Iterable[str], before: Iterable[str] = ()) -> str | None:
    found = list(dict.fromkeys(jobs))
    return next((job for job in before if job in found), next(iter(found), None))
