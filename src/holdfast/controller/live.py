"""What the controller remembers: the admin's limits, each job that is not final, and one job's part in a round."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from holdfast.core.attempt import JobSnapshot, Observation, StopRequest
from holdfast.core.holds import HoldRequest
from holdfast.core.plan import Plan
from holdfast.core.records import NewEvent
from holdfast.core.states import TaskState
from holdfast.store.jobs import records as job_rows

from .debuggers import Debuggers
from .holds import HoldLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The admin's defaults."""

    time_limit: timedelta | None
    openpai_time_limit: timedelta | None = None  # for jobs whose authors know no limit
    grace: timedelta
    max_grace: timedelta
    hold: HoldLimits = field(default_factory=HoldLimits)


@dataclass(slots=True)
class Live:
    """A job that is not final, and what has been noticed about it since its last plan."""

    snapshot: JobSnapshot
    seen: dict[str, Observation] = field(default_factory=dict)
    stop: StopRequest | None = None
    requests: list[HoldRequest] = field(default_factory=list)
    acknowledge: list[asyncio.Future[None]] = field(default_factory=list)
    began: float | None = None  # loop time at which the current attempt began to run
    timer: asyncio.TimerHandle | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    queued: tuple[str, ...] = ()
    collecting: dict[str, float] = field(
        default_factory=dict
    )  # ended, their artifacts being kept; loop time of the end
    failed_starts: set[str] = field(default_factory=set)  # attempts of which that was told
    told: list[NewEvent] = field(default_factory=list)  # to be saved with the next change
    debuggers: Debuggers = field(default_factory=Debuggers)

    def begin_round(self) -> Round:
        """Take what was noticed; from here on new things are for the next round."""
        work = Round(
            self,
            self.snapshot,
            self.seen,
            self.stop,
            self.requests,
            self.acknowledge,
            self.told,
            events=list(self.told),
        )
        self.seen, self.stop, self.requests, self.acknowledge, self.told = {}, None, [], [], []
        return work


Lives = Mapping[str, Live]  # by the job's id


@dataclass(slots=True)
class Round:
    """One job's plans within a round: the state before, and what came of it."""

    live: Live
    before: JobSnapshot
    seen: dict[str, Observation]
    stop: StopRequest | None
    requests: list[HoldRequest]
    acknowledge: list[asyncio.Future[None]]
    told: list[NewEvent]
    plans: list[Plan] = field(default_factory=list)
    events: list[NewEvent] = field(default_factory=list)

    @property
    def matters(self) -> bool:
        """Something is to be saved."""
        return bool(self.events or any(result.tasks for result in self.plans))

    @property
    def after(self) -> JobSnapshot:
        return self.plans[-1].after if self.plans else self.before

    def give_back(self) -> None:
        """Nothing was saved: what was noticed is for the next round, before what came since."""
        live = self.live
        live.seen = {**self.seen, **live.seen}
        live.stop = self.stop or live.stop
        live.requests = self.requests + live.requests
        live.acknowledge = self.acknowledge + live.acknowledge
        live.told = self.told + live.told

    def saved(self) -> job_rows.Saved:
        tasks = {}
        for result in self.plans:
            for task in result.tasks:
                if task.state is not TaskState.WAITING or task.number:
                    tasks[task.role, task.index, task.number] = task
        after = replace(self.after, version=self.before.version + 1)
        return job_rows.Saved(
            before_version=self.before.version,
            after=after,
            tasks=tuple(tasks.values()),
            events=tuple(self.events),
            attempts=tuple(result.ended for result in self.plans if result.ended),
        )


def live_attempts(snapshot: JobSnapshot) -> list[str]:
    """Ids of those that are placed and have not ended."""
    return [snapshot.attempt_id(task) for task in snapshot.tasks if task.state.live and task.node]
