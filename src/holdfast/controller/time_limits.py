"""Time limits of jobs, from the settings of the admin, the group and the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.core.attempt_id import parse_job_id
from holdfast.core.job import HoldScope, Job
from holdfast.core.planning.steps import JobPolicy
from holdfast.core.records import Group
from holdfast.core.scheduling.backfill import TimeEstimates

from .live_jobs import JobLimits, LiveJobs


def build_job_policy(job: Job, limits: JobLimits, groups: Mapping[str, Group]) -> JobPolicy:
    grace = limits.grace if job.grace is None else job.grace
    return JobPolicy(
        time_limit=find_time_limit(job, limits, groups),
        grace=min(grace, limits.max_grace),
        hold=limits.hold.build_hold_policy(job),
    )


def find_time_limit(job: Job, limits: JobLimits, groups: Mapping[str, Group]) -> timedelta | None:
    """Return the time limit; None: no limit."""
    group = groups.get(job.group)
    limit = job.time_limit if job.time_limit is not None else group.time_limit if group else None
    if limit is None:
        limit = limits.openpai_time_limit if job.dialect.is_openpai else limits.time_limit
    return limit or None


def build_time_estimates(
    jobs: LiveJobs, policy: Callable[[Job], JobPolicy], now: float, *, holds: bool = True
) -> TimeEstimates:
    """Build estimates. `now` is monotonic. `holds`: assume that every job that can be held is held."""

    def estimate_end(attempt_id: str) -> float | None:
        live = jobs.get(parse_job_id(attempt_id))
        if live is None:
            return now
        span, began = get_max_duration(live.snapshot.id), live.began  # read once: another thread may change it
        return None if span is None else (now if began is None else began) + span

    def get_max_duration(job_id: str) -> float | None:
        return _compute_max_duration(policy(jobs[job_id].snapshot.job), holds)

    return TimeEstimates(now, estimate_end, get_max_duration)


def build_expected_estimates(
    jobs: LiveJobs, policy: Callable[[Job], JobPolicy], now: float, wall: datetime
) -> TimeEstimates:
    """For users: without future holds, and with current holds as long as planned. `wall` is the time of `now`."""

    plain = build_time_estimates(jobs, policy, now, holds=False)

    def estimate_end(attempt_id: str) -> float | None:
        live = jobs.get(parse_job_id(attempt_id))
        tasks = live.snapshot.tasks if live else ()
        kept = [task.held.until for task in tasks if task.held and task.occupies_node]
        return now + (max(kept) - wall).total_seconds() if kept else plain.find_end(attempt_id)

    return replace(plain, find_end=estimate_end)


def _compute_max_duration(policy: JobPolicy, holds: bool) -> float | None:
    """Return the seconds that an attempt can use its resources: time limit, grace period and hold."""
    kept = holds and policy.hold is not None and policy.hold.keep is HoldScope.ALL
    held = policy.hold.longest if kept and policy.hold else timedelta()
    return None if policy.time_limit is None else (policy.time_limit + policy.grace + held).total_seconds()
