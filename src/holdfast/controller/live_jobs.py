"""State of the controller: limits, each active job, and one job's part in a round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from holdfast.core.attempt import JobSnapshot, Observation, StopRequest
from holdfast.core.holds import HoldRequest
from holdfast.core.planning.steps import Plan
from holdfast.core.records import NewEvent
from holdfast.core.states import TaskState
from holdfast.store.jobs import records as job_rows

from .debuggers import JobDebuggers
from .holds import HoldLimits
from .start_reports import StartReports

MIN_PLAN_INTERVAL = 1.0  # minimum seconds between plans of a job whose time does not count
MAX_TIMER_INTERVAL = 3600.0  # seconds; maximum of a timer


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Default limits, set by the admin."""

    time_limit: timedelta | None
    openpai_time_limit: timedelta | None = None  # for OpenPAI jobs, which have no time limits
    grace: timedelta
    max_grace: timedelta
    hold: HoldLimits = field(default_factory=HoldLimits)


@dataclass(slots=True)
class LiveJob:
    """An active job, and changes since its last plan."""

    snapshot: JobSnapshot
    seen: dict[str, Observation] = field(default_factory=dict)
    stop: StopRequest | None = None
    requests: list[HoldRequest] = field(default_factory=list)
    acknowledgements: list[asyncio.Future[None]] = field(default_factory=list)
    began: float | None = None  # loop time at which the current attempt began to run
    timer: asyncio.TimerHandle | None = None
    state_changed: asyncio.Event = field(default_factory=asyncio.Event)
    queue_entry_ids: tuple[str, ...] = ()
    # Ended attempts whose artifacts are collected; loop time of the end.
    collecting: dict[str, float] = field(default_factory=dict)
    failed_starts: set[str] = field(default_factory=set)  # attempts with a reported failure
    unsaved_events: list[NewEvent] = field(default_factory=list)  # to be saved with the next change
    debuggers: JobDebuggers = field(default_factory=JobDebuggers)
    start_reports: StartReports = field(default_factory=StartReports)

    def begin_round(self) -> JobRound:
        """Move the collected changes to a round; new ones go to the next."""
        work = JobRound(
            self,
            self.snapshot,
            self.seen,
            self.stop,
            self.requests,
            self.acknowledgements,
            self.unsaved_events,
            events=list(self.unsaved_events),
        )
        self.seen, self.stop, self.requests, self.acknowledgements, self.unsaved_events = {}, None, [], [], []
        return work

    def set_timer(self, wake_in: timedelta | None, mark: Callable[[str], None]) -> None:
        if self.timer:
            self.timer.cancel()
            self.timer = None
        if wake_in is not None:
            soonest = MIN_PLAN_INTERVAL if self.collecting else 0.0
            seconds = min(max(wake_in.total_seconds(), soonest), MAX_TIMER_INTERVAL)
            self.timer = asyncio.get_running_loop().call_later(seconds, mark, self.snapshot.id)


LiveJobs = Mapping[str, LiveJob]  # by the job's id


@dataclass(slots=True)
class JobRound:
    """One job's plans within a round."""

    live: LiveJob
    before: JobSnapshot
    seen: dict[str, Observation]
    stop: StopRequest | None
    requests: list[HoldRequest]
    acknowledgements: list[asyncio.Future[None]]
    unsaved_events: list[NewEvent]
    plans: list[Plan] = field(default_factory=list)
    events: list[NewEvent] = field(default_factory=list)

    @property
    def has_changes(self) -> bool:
        """Whether something has to be saved."""
        return bool(self.events or any(result.tasks for result in self.plans))

    @property
    def after(self) -> JobSnapshot:
        return self.plans[-1].after if self.plans else self.before

    def restore_changes(self) -> None:
        """Return the changes of a failed save to the next round, before newer ones."""
        live = self.live
        live.seen = {**self.seen, **live.seen}
        live.stop = self.stop or live.stop
        live.requests = self.requests + live.requests
        live.acknowledgements = self.acknowledgements + live.acknowledgements
        live.unsaved_events = self.unsaved_events + live.unsaved_events

    def build_job_change(self) -> job_rows.JobChange:
        tasks = {}
        for result in self.plans:
            for task in result.tasks:
                if task.state is not TaskState.WAITING or task.number:
                    tasks[task.role, task.index, task.number] = task
        after = replace(self.after, version=self.before.version + 1)
        return job_rows.JobChange(
            before_version=self.before.version,
            after=after,
            tasks=tuple(tasks.values()),
            events=tuple(self.events),
            attempts=tuple(result.ended for result in self.plans if result.ended),
        )


def acknowledge_requests(waiting: Iterable[asyncio.Future[None]]) -> None:
    """Tell callers that their requests are saved."""
    for done in waiting:
        if not done.done():
            done.set_result(None)


def get_engines_by_attempt(snapshot: JobSnapshot) -> dict[str, str]:
    """Return the engines of placed attempts that have not ended."""
    return {snapshot.build_attempt_id(task): task.engine for task in snapshot.tasks if task.state.live and task.node}


def list_live_attempt_ids(snapshot: JobSnapshot) -> list[str]:
    """Return the ids of placed attempts that have not ended."""
    return [snapshot.build_attempt_id(task) for task in snapshot.tasks if task.state.live and task.node]
