"""How long jobs may run and have their places: what the admin, the group and the job settled on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.core.attempt_id import job_id_of
from holdfast.core.job import Job, Keep
from holdfast.core.plan import Policy
from holdfast.core.records import Group
from holdfast.core.scheduling.backfill import TimeEstimates

from .live import Limits, Lives


def policy_of(job: Job, limits: Limits, groups: Mapping[str, Group]) -> Policy:
    grace = limits.grace if job.grace is None else job.grace
    return Policy(
        time_limit=time_limit_of(job, limits, groups),
        grace=min(grace, limits.max_grace),
        hold=limits.hold.policy(job),
    )


def time_limit_of(job: Job, limits: Limits, groups: Mapping[str, Group]) -> timedelta | None:
    """None: no limit."""
    group = groups.get(job.group)
    limit = job.time_limit if job.time_limit is not None else group.time_limit if group else None
    if limit is None:
        limit = limits.openpai_time_limit if job.dialect.openpai else limits.time_limit
    return limit or None


def reckoning_of(jobs: Lives, policy: Callable[[Job], Policy], now: float, *, holds: bool = True) -> TimeEstimates:
    """`now` is of the loop's clock, so that a jump of the wall clock promises nothing wrong. `holds`: whatever may fail
    and be held does so."""

    def ends(attempt_id: str) -> float | None:
        live = jobs.get(job_id_of(attempt_id))
        if live is None:
            return now
        span, began = longest(live.snapshot.id), live.began  # read once: another thread may ask
        return None if span is None else (now if began is None else began) + span

    def longest(job_id: str) -> float | None:
        return _longest(policy(jobs[job_id].snapshot.job), holds)

    return TimeEstimates(now, ends, longest)


def expected_of(jobs: Lives, policy: Callable[[Job], Policy], now: float, wall: datetime) -> TimeEstimates:
    """The same as people are told it: nobody knows who will fail and be held, and what is held is as long as planned.
    `wall` is the time of `now`."""

    plain = reckoning_of(jobs, policy, now, holds=False)

    def ends(attempt_id: str) -> float | None:
        live = jobs.get(job_id_of(attempt_id))
        tasks = live.snapshot.tasks if live else ()
        kept = [task.held.until for task in tasks if task.held and task.occupies]
        return now + (max(kept) - wall).total_seconds() if kept else plain.ends(attempt_id)

    return replace(plain, ends=ends)


def _longest(policy: Policy, holds: bool) -> float | None:
    """Seconds that an attempt may have its place: at its limit it is asked to end, and has its grace for that; or it
    fails just before, and is held."""
    kept = holds and policy.hold is not None and policy.hold.keep is Keep.ALL
    held = policy.hold.longest if kept and policy.hold else timedelta()
    return None if policy.time_limit is None else (policy.time_limit + policy.grace + held).total_seconds()
