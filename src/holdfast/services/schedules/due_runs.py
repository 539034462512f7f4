"""Submit the jobs of due schedules, exactly once for each due time, also across server crashes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from holdfast.core.attempt import JobSnapshot
from holdfast.core.messages import msg
from holdfast.core.schedule import InvalidReason, RunResult, Schedule
from holdfast.store import schedules as schedule_rows
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import records as job_rows
from holdfast.store.schedules import NewScheduleRun, ScheduleStep, StoredSchedule

from ..control import Control
from ..jobs.new_jobs import SCHEDULE_ACTOR, add_job_to_controller, build_new_job
from ..jobs.validation import JobValidator
from .checks import ScheduleCheckResult, ScheduleChecks
from .due_actions import advance_schedule, build_skipped_step, get_catch_up_time, refresh_next_run, should_start_job
from .recurrence import RecurrenceTimes

log = logging.getLogger(__name__)

BATCH_SIZE = 100  # due schedules per batch; other work runs between batches
MAX_QUEUED_ROUNDS = 3
CHECKS_TTL = 5.0  # seconds for which batches share their checks


class DueRuns:
    """Only called by the controller's ScheduleRunner."""

    def __init__(
        self,
        store: Store,
        control: Control,
        intake: JobValidator,
        timing: RecurrenceTimes,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._control = control
        self._validator = intake
        self._timing = timing
        self._clock = clock
        self._wake_event = asyncio.Event()
        self._cached_checks: tuple[float, ScheduleChecks] | None = None
        self._schedules_by_awaited_job: dict[str, str] = {}  # job -> the schedule with a run queued behind it
        self._released_schedules: set[str] = set()  # schedules whose queued run can start
        self.on_missed_run: Callable[[], None] = lambda: None  # called after a missed run is saved
        self._unconfirmed_schedules: set[str] = (
            set()
        )  # schedules whose last turn may be saved although the store reported a failure

    def wake(self) -> None:
        """Make the runner check schedules again."""
        self._wake_event.set()

    async def wait_for_wake(self, timeout: float) -> None:
        """Wait until schedules should be checked again, at most `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake_event.wait()
        self._wake_event.clear()

    def release_queued_run(self, job: JobSnapshot) -> None:
        schedule = self._schedules_by_awaited_job.pop(job.id, None)
        if schedule is not None:
            self._released_schedules.add(schedule)
            self._wake_event.set()

    async def recover_schedules(self) -> None:
        """At startup: time zone rules may have changed, jobs may have ended, and superseded jobs may still run."""
        last, now = "", self._clock()
        while page := await self._store.read(schedule_rows.list_schedules_after, last, BATCH_SIZE):
            last = page[-1].id
            found = [refresh_next_run(schedule, now, self._timing) for schedule in page]
            moved = [after for after, before in zip(found, page, strict=True) if after != before]
            if moved:
                await self._store.write(schedule_rows.record_validity, moved)
            self._released_schedules |= {schedule.id for schedule in page if schedule.queued_at is not None}
        await self._stop_superseded_jobs()

    async def run_due_schedules(self) -> datetime | None:
        """Run all due schedules and return when the next one is due."""
        self._cached_checks = None
        await self._recover_unconfirmed_runs()
        while batch := await self._store.read(schedule_rows.list_due_schedules, self._clock(), BATCH_SIZE):
            await self._run_batch(batch)
        for _ in range(MAX_QUEUED_ROUNDS):  # bounded: the rest waits for the next call
            freed = sorted(self._released_schedules)
            for start in range(0, len(freed), BATCH_SIZE):
                await self._start_queued_runs(freed[start : start + BATCH_SIZE])
        return await self._store.read(schedule_rows.find_next_due_time)

    async def _run_batch(self, batch: Sequence[StoredSchedule]) -> None:
        now, checks = self._clock(), self._get_checks()
        busy = await self._store.read(
            schedule_rows.load_open_jobs_by_schedule, [stored.schedule.id for stored in batch]
        )
        turns = await asyncio.gather(
            *(self._plan_step(stored, now, busy.get(stored.schedule.id, ()), checks) for stored in batch)
        )
        await self._save_steps(turns)
        for turn in turns:
            if turn.after.queued_at is not None:
                self._watch_jobs(turn.after.id, busy.get(turn.after.id, ()))
        if any(turn.job is not None and turn.after.id in busy for turn in turns):
            await self._stop_superseded_jobs()

    def _get_checks(self) -> ScheduleChecks:
        """Return recent checks: batches follow each other closely."""
        now = asyncio.get_running_loop().time()
        if self._cached_checks is None or now - self._cached_checks[0] > CHECKS_TTL:
            self._cached_checks = now, ScheduleChecks(self._store, self._validator, prepare=True)
        return self._cached_checks[1]

    async def _plan_step(
        self, stored: StoredSchedule, now: datetime, busy: Sequence[str], checks: ScheduleChecks
    ) -> ScheduleStep:
        """Plan what the schedule does now. An internal error must not block other schedules or be retried at once."""
        schedule = stored.schedule
        due_at = schedule.next_run_at or now
        if schedule.queued_at is not None and not busy:
            return await self._plan_queued_step(stored, now, checks)  # first; the due time stays due and is next
        if not should_start_job(schedule, due_at, now, bool(busy)):
            return build_skipped_step(schedule, due_at, now, busy[0] if busy else "", self._timing)
        found = await self._check_schedule(stored, checks)
        after = advance_schedule(found.apply_to_schedule(schedule), get_catch_up_time(due_at, now), self._timing)
        return _plan_start(after, due_at, now, found)

    async def _check_schedule(self, stored: StoredSchedule, checks: ScheduleChecks) -> ScheduleCheckResult:
        try:
            return await checks.check_schedule(stored)
        except StoreError:
            raise
        except Exception:
            log.exception("could not check a schedule", extra={"event": "schedule", "schedule": stored.schedule.id})
            return ScheduleCheckResult(invalid=InvalidReason.OTHER, message=msg("Internal error; see the server log"))

    async def _start_queued_runs(self, ids: Sequence[str]) -> None:
        now, checks = self._clock(), self._get_checks()
        waiting = await self._store.read(schedule_rows.list_queued_schedules, ids)
        busy = await self._store.read(schedule_rows.load_open_jobs_by_schedule, ids)
        free = [stored for stored in waiting if stored.schedule.id not in busy]
        turns = await asyncio.gather(*(self._plan_queued_step(stored, now, checks) for stored in free))
        moved = await self._save_steps(turns)
        changed = {turn.after.id for turn, saved in moved if not saved}  # concurrently; tried again
        self._released_schedules.difference_update(set(ids) - changed)
        for stored in waiting:
            self._watch_jobs(stored.schedule.id, busy.get(stored.schedule.id, ()))

    async def _plan_queued_step(self, stored: StoredSchedule, now: datetime, checks: ScheduleChecks) -> ScheduleStep:
        schedule, found = stored.schedule, await self._check_schedule(stored, checks)
        return _plan_start(
            replace(found.apply_to_schedule(schedule), queued_at=None), schedule.queued_at or now, now, found
        )

    def _watch_jobs(self, schedule: str, jobs: Iterable[str]) -> None:
        for job in jobs:
            if self._control.get_active_job(job) is None:  # it ended before we watched it, so no event follows
                self._released_schedules.add(schedule)
            else:
                self._schedules_by_awaited_job[job] = schedule

    async def _save_steps(self, turns: Sequence[ScheduleStep]) -> list[tuple[ScheduleStep, bool]]:
        """Save the turns; return each with whether it was saved, which fails if its schedule has changed."""
        return await asyncio.shield(self._save_and_announce_steps(turns)) if turns else []

    async def _save_and_announce_steps(self, turns: Sequence[ScheduleStep]) -> list[tuple[ScheduleStep, bool]]:
        try:
            done = await self._store.write(schedule_rows.advance_schedules, turns)
        except StoreError:
            self._unconfirmed_schedules |= {turn.after.id for turn in turns}
            raise
        for turn, saved in zip(turns, done, strict=True):
            if saved.inserted is not None and turn.job is not None:
                add_job_to_controller(self._control, saved.inserted, turn.job)
        if any(turn.run is not None and turn.job is None for turn in turns):
            self.on_missed_run()
        return [(turn, saved.applied) for turn, saved in zip(turns, done, strict=True)]

    async def _recover_unconfirmed_runs(self) -> None:
        """Hand over jobs that were stored despite a reported failure."""
        if not self._unconfirmed_schedules:
            return
        for jobs in (
            await self._store.read(schedule_rows.load_open_jobs_by_schedule, self._unconfirmed_schedules)
        ).values():
            for job in jobs:
                if self._control.get_active_job(job) is None:
                    snapshot = await self._store.read(job_rows.load_snapshot, job)
                    if not snapshot.state.final:
                        self._control.add_job(snapshot)
        self._unconfirmed_schedules = set()

    async def _stop_superseded_jobs(self) -> None:
        jobs = await self._store.read(schedule_rows.load_superseded_jobs)
        reasons = {
            job: msg("replaced by the next run of its schedule {schedule}", schedule=schedule)
            for job, schedule in jobs.items()
        }
        await asyncio.gather(*(self._control.stop_job(job, SCHEDULE_ACTOR, why) for job, why in reasons.items()))


def _plan_start(after: Schedule, due_at: datetime, now: datetime, found: ScheduleCheckResult) -> ScheduleStep:
    if found.invalid is not None or found.ready is None or found.actor is None:
        run = NewScheduleRun(due_at=due_at, at=now, result=RunResult.FAILED, message=found.message)
        return ScheduleStep(after=after, run=run)
    message = msg(
        "Submitted by the schedule {id}, due at {due_at} UTC", id=after.id, due_at=f"{due_at:%Y-%m-%d %H:%M:%S}"
    )
    job = build_new_job(found.actor, found.ready, now, message, found.ready.warnings, schedule=after.id)
    return ScheduleStep(after=after, run=NewScheduleRun(due_at=due_at, at=now, result=RunResult.STARTED), job=job)
