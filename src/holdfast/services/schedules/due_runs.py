"""Schedules that are due: their jobs are made, each time once, however often servers die meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot
from holdfast.core.messages import msg
from holdfast.core.records import NewEvent
from holdfast.core.schedule import Invalid, RunResult, Schedule
from holdfast.core.states import JobState
from holdfast.store import schedules as schedule_rows
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import records as job_rows
from holdfast.store.schedules import NewRun, Stored, Turn

from ..control import Control
from ..jobs.service import warning_events
from ..jobs.validation import JobValidator, Ready
from .checks import Checks, Finding
from .due_actions import caught_up, moved_on, retimed, turn_without_job, wants_job
from .recurrence import Timing

log = logging.getLogger(__name__)

BATCH_SIZE = 100  # schedules that are due are dealt with in such batches, so that other work comes in between
TRIES = 3
FRESH = 5.0  # seconds for which batches share what they found
SCHEDULER = "holdfast"


class DueRuns:
    """For the controller's clockwork, which is the only one to call it."""

    def __init__(
        self, store: Store, control: Control, intake: JobValidator, timing: Timing, *, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._control = control
        self._intake = intake
        self._timing = timing
        self._clock = clock
        self._stirred = asyncio.Event()
        self._known: tuple[float, Checks] | None = None
        self._awaited: dict[str, str] = {}  # job -> the schedule that has a run which waits for its end
        self._freed: set[str] = set()  # schedules whose waiting run may begin
        self.missed: Callable[[], None] = lambda: None  # called when one did not run, once that is saved
        self._doubtful: set[str] = set()  # schedules whose last turn may be saved, though the store said it failed

    def stir(self) -> None:
        """Something changed that `run_due` should look at."""
        self._stirred.set()

    async def stirred(self, timeout: float) -> None:
        """Until something changed that `run_due` should look at, or this many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._stirred.wait()
        self._stirred.clear()

    def job_ended(self, job: JobSnapshot) -> None:
        schedule = self._awaited.pop(job.id, None)
        if schedule is not None:
            self._freed.add(schedule)
            self._stirred.set()

    async def settle(self) -> None:
        """At the start: rules of time zones and the server's own zone may not be what they were, jobs may have ended,
        and whoever was to be stopped may not have been told."""
        last, now = "", self._clock()
        while page := await self._store.read(schedule_rows.page_after, last, BATCH_SIZE):
            last = page[-1].id
            found = [retimed(schedule, now, self._timing) for schedule in page]
            moved = [after for after, before in zip(found, page, strict=True) if after != before]
            if moved:
                await self._store.write(schedule_rows.note_validity, moved)
            self._freed |= {schedule.id for schedule in page if schedule.queued_at is not None}
        await self._stop_superseded()

    async def run_due(self) -> datetime | None:
        """Deal with all that is due, and say when the next one is."""
        self._known = None
        await self._find_doubtful()
        while batch := await self._store.read(schedule_rows.due, self._clock(), BATCH_SIZE):
            await self._run_batch(batch)
        for _ in range(TRIES):  # not for ever: what is left waits for the next look
            for ids in _slices(sorted(self._freed)):
                await self._run_freed(ids)
        return await self._store.read(schedule_rows.first_due)

    async def _run_batch(self, batch: Sequence[Stored]) -> None:
        now, checks = self._clock(), self._checks()
        busy = await self._store.read(schedule_rows.open_jobs, [stored.schedule.id for stored in batch])
        turns = await asyncio.gather(
            *(self._turn(stored, now, busy.get(stored.schedule.id, ()), checks) for stored in batch)
        )
        await self._take(turns)
        for turn in turns:
            if turn.after.queued_at is not None:
                self._await(turn.after.id, busy.get(turn.after.id, ()))
        if any(turn.job is not None and turn.after.id in busy for turn in turns):
            await self._stop_superseded()

    def _checks(self) -> Checks:
        """What was found a moment ago still holds: batches follow each other closely."""
        now = asyncio.get_running_loop().time()
        if self._known is None or now - self._known[0] > FRESH:
            self._known = now, Checks(self._store, self._intake, prepare=True)
        return self._known[1]

    async def _turn(self, stored: Stored, now: datetime, busy: Sequence[str], checks: Checks) -> Turn:
        """One that cannot be dealt with, a bug of ours, must not keep the others waiting, nor come back at once."""
        schedule = stored.schedule
        due_at = schedule.next_run_at or now
        if schedule.queued_at is not None and not busy:
            return await self._queued_turn(stored, now, checks)  # first; what is due now stays so, and comes next
        if not wants_job(schedule, due_at, now, bool(busy)):
            return turn_without_job(schedule, due_at, now, busy[0] if busy else "", self._timing)
        found = await self._look(stored, checks)
        after = moved_on(found.noted(schedule), caught_up(due_at, now), self._timing)
        return _start(after, due_at, now, found)

    async def _look(self, stored: Stored, checks: Checks) -> Finding:
        try:
            return await checks.look(stored)
        except StoreError:
            raise
        except Exception:
            log.exception("could not look at a schedule", extra={"event": "schedule", "schedule": stored.schedule.id})
            return Finding(invalid=Invalid.OTHER, message=msg("An internal error; the server's log tells more"))

    async def _run_freed(self, ids: Sequence[str]) -> None:
        """Runs that waited for an earlier job to end."""
        now, checks = self._clock(), self._checks()
        waiting = await self._store.read(schedule_rows.queued, ids)
        busy = await self._store.read(schedule_rows.open_jobs, ids)
        free = [stored for stored in waiting if stored.schedule.id not in busy]
        turns = await asyncio.gather(*(self._queued_turn(stored, now, checks) for stored in free))
        moved = await self._take(turns)
        again = {turn.after.id for turn, taken in moved if not taken}  # somebody changed it meanwhile
        self._freed.difference_update(set(ids) - again)
        for stored in waiting:
            self._await(stored.schedule.id, busy.get(stored.schedule.id, ()))

    async def _queued_turn(self, stored: Stored, now: datetime, checks: Checks) -> Turn:
        schedule, found = stored.schedule, await self._look(stored, checks)
        return _start(replace(found.noted(schedule), queued_at=None), schedule.queued_at or now, now, found)

    def _await(self, schedule: str, jobs: Iterable[str]) -> None:
        for job in jobs:
            if self._control.active(job) is None:  # it ended before we began to wait, and nobody else will tell
                self._freed.add(schedule)
            else:
                self._awaited[job] = schedule

    async def _take(self, turns: Sequence[Turn]) -> list[tuple[Turn, bool]]:
        """Each with whether it was: not if its schedule has changed."""
        return await asyncio.shield(self._take_all(turns)) if turns else []

    async def _take_all(self, turns: Sequence[Turn]) -> list[tuple[Turn, bool]]:
        try:
            done = await self._store.write(schedule_rows.advance, turns)
        except StoreError:
            self._doubtful |= {turn.after.id for turn in turns}
            raise
        for turn, taken in zip(turns, done, strict=True):
            if taken.inserted is not None and turn.job is not None:
                tell(self._control, taken.inserted, turn.job)
        if any(turn.run is not None and turn.job is None for turn in turns):
            self.missed()
        return [(turn, taken.moved) for turn, taken in zip(turns, done, strict=True)]

    async def _find_doubtful(self) -> None:
        """Jobs that were stored after all, and that the controller has not heard of."""
        if not self._doubtful:
            return
        for jobs in (await self._store.read(schedule_rows.open_jobs, self._doubtful)).values():
            for job in jobs:
                if self._control.active(job) is None:
                    snapshot = await self._store.read(job_rows.load_snapshot, job)
                    if not snapshot.state.final:
                        self._control.added(snapshot)
        self._doubtful = set()

    async def _stop_superseded(self) -> None:
        jobs = await self._store.read(schedule_rows.superseded)
        stops = (self._control.stop(job, SCHEDULER, _superseded(schedule)) for job, schedule in jobs.items())
        await asyncio.gather(*stops)


def _superseded(schedule: str) -> str:
    return msg("the next run of its schedule {schedule} took its place", schedule=schedule)


def _slices(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + BATCH_SIZE] for start in range(0, len(ids), BATCH_SIZE))


def _start(after: Schedule, due_at: datetime, now: datetime, found: Finding) -> Turn:
    if found.invalid is not None or found.ready is None or found.actor is None:
        run = NewRun(due_at=due_at, at=now, result=RunResult.FAILED, message=found.message)
        return Turn(after=after, run=run)
    message = msg(
        "Submitted by the schedule {id}, due at {due_at} UTC", id=after.id, due_at=f"{due_at:%Y-%m-%d %H:%M:%S}"
    )
    job = new_job(found.actor, found.ready, now, message, found.ready.warnings, schedule=after.id)
    return Turn(after=after, run=NewRun(due_at=due_at, at=now, result=RunResult.STARTED), job=job)


def new_job(
    actor: Actor, ready: Ready, now: datetime, message: str, warnings: Sequence[str], *, schedule: str | None = None
) -> job_rows.NewJob:
    by = SCHEDULER if schedule is not None else actor.name
    event = NewEvent(kind="submitted", message=message, at=now, actor=by, attempt=0, state=JobState.PENDING)
    return job_rows.NewJob(
        job=ready.job,
        user=actor.name,
        source=ready.source,
        submitted_at=now,
        event=event,
        warnings=warning_events(warnings, now),
        schedule=schedule,
    )


def tell(control: Control, inserted: job_rows.Inserted, new: job_rows.NewJob) -> None:
    """The controller drives what is stored, once it knows."""
    summary = inserted.summary
    control.added(JobSnapshot(id=summary.id, job=new.job, user=new.user, submitted_at=summary.submitted_at))
