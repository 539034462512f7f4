"""Plans one job within a round: gives the pure plan what it needs to know."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.core.attempt import JobSnapshot, Seen
from holdfast.core.job import Job
from holdfast.core.plan import Policy, plan
from holdfast.core.records import Group, NewEvent
from holdfast.core.scheduling.backfill import TimeEstimates
from holdfast.core.scheduling.placement import Placed, Refused

from .holds import held_tasks, with_room
from .live import Limits, Live, Lives, Round
from .times import policy_of, reckoning_of, time_limit_of


class Planner:
    def __init__(self, lives: Lives, limits: Limits, clock: Callable[[], datetime]) -> None:
        self._lives = lives
        self._clock = clock
        self.limits = limits
        self.groups: Mapping[str, Group] = {}

    def plan(self, work: Round, decision: Placed | Refused | None, newest: Callable[[], Iterable[JobSnapshot]]) -> None:
        """`newest` gives every job, as this round leaves it."""
        snapshot = work.after
        policy = self.policy(snapshot.job)
        if policy.hold and any(seen.seen is Seen.HELD for seen in work.seen.values()):
            held = held_tasks(newest())
            policy = replace(policy, hold=with_room(policy.hold, self.limits.hold, snapshot.user, held))
        if work.stop is not None and snapshot.stop is None:
            snapshot = replace(snapshot, stop=work.stop)
            told = NewEvent(kind="stop-requested", message=work.stop.asked, at=work.stop.at, actor=work.stop.actor)
            work.events.append(told)
        result = plan(
            snapshot,
            {} if decision else work.seen,
            self._clock(),
            policy,
            decision=decision,
            requests=() if decision else work.requests,
            elapsed=_elapsed(work.live),
            chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
        )
        work.plans.append(result)
        work.events.extend(result.events)

    def policy(self, job: Job) -> Policy:
        return policy_of(job, self.limits, self.groups)

    def time_limit(self, job: Job) -> timedelta | None:
        return time_limit_of(job, self.limits, self.groups)

    def reckoning(self) -> TimeEstimates:
        return reckoning_of(self._lives, self.policy, asyncio.get_running_loop().time())


def _elapsed(live: Live) -> timedelta | None:
    if live.began is None:
        return None
    return timedelta(seconds=_ran_until(live) - live.began)


def _ran_until(live: Live) -> float:
    """Now; or when the last of its tasks ended, while artifacts are being kept and nothing runs any more."""
    snapshot = live.snapshot
    if live.collecting and all(
        snapshot.attempt_id(task) in live.collecting for task in snapshot.tasks if task.state.live
    ):
        return max(live.collecting.values())
    return asyncio.get_running_loop().time()
