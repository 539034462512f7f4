"""Plans one job within a round: provides the inputs of the pure plan."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.core.attempt import JobSnapshot, ObservedState
from holdfast.core.job import Job
from holdfast.core.planning.plan import plan_job
from holdfast.core.planning.steps import JobPolicy
from holdfast.core.records import Group, NewEvent
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.placement import Placement, PlacementRefusal

from .holds import limit_hold_policy, list_held_tasks
from .live_jobs import JobLimits, JobRound, LiveJob, LiveJobs
from .time_limits import build_job_policy, build_time_estimates, find_time_limit


class Planner:
    def __init__(
        self, lives: LiveJobs, limits: JobLimits, clock: Callable[[], datetime], default_engine: str = ""
    ) -> None:
        self._lives = lives
        self._clock = clock
        self.limits = limits
        self.groups: Mapping[str, Group] = {}
        self.default_engine = default_engine

    def plan_job(
        self, work: JobRound, decision: Placement | PlacementRefusal | None, newest: Callable[[], Iterable[JobSnapshot]]
    ) -> None:
        """`newest` returns every job as of this round."""
        snapshot = work.after
        policy = self.build_policy(snapshot.job)
        if policy.hold and any(seen.seen is ObservedState.HELD for seen in work.seen.values()):
            held = list_held_tasks(newest())
            policy = replace(policy, hold=limit_hold_policy(policy.hold, self.limits.hold, snapshot.user, held))
        if work.stop is not None and snapshot.stop is None:
            snapshot = replace(snapshot, stop=work.stop)
            event = NewEvent(
                kind="stop-requested", message=work.stop.request_message, at=work.stop.at, actor=work.stop.actor
            )
            work.events.append(event)
        result = plan_job(
            snapshot,
            {} if decision else work.seen,
            self._clock(),
            policy,
            decision=decision,
            requests=() if decision else work.requests,
            elapsed=_compute_elapsed_time(work.live),
            chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
            progress=work.live.start_reports.build_progress(snapshot.attempt),
        )
        work.plans.append(result)
        work.events.extend(result.events)

    def build_policy(self, job: Job) -> JobPolicy:
        return build_job_policy(job, self.limits, self.groups)

    def choose_engine(self, job: Job) -> str:
        """Return the engine that would run it now: its own choice, its group's, or the default one."""
        group = self.groups.get(job.group)
        return job.engine or (group.engine if group else "") or self.default_engine

    def find_time_limit(self, job: Job) -> timedelta | None:
        return find_time_limit(job, self.limits, self.groups)

    def estimate_times(self) -> TimeEstimates:
        return build_time_estimates(self._lives, self.build_policy, asyncio.get_running_loop().time())


def _compute_elapsed_time(live: LiveJob) -> timedelta | None:
    if live.began is None:
        return None
    return timedelta(seconds=_find_run_end(live) - live.began)


def _find_run_end(live: LiveJob) -> float:
    """Return now, or the end of the last task while artifacts are collected and nothing runs."""
    snapshot = live.snapshot
    if live.collecting and all(
        snapshot.build_attempt_id(task) in live.collecting for task in snapshot.tasks if task.state.live
    ):
        return max(live.collecting.values())
    return asyncio.get_running_loop().time()
