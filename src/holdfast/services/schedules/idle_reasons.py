"""Why nothing of a schedule runs now: what a run that is due waits for, or when the next one is."""

from __future__ import annotations

from datetime import datetime

from holdfast.core.access import Actor, Verb, may
from holdfast.core.messages import join_messages, msg
from holdfast.core.schedule import Schedule
from holdfast.core.scheduling.blockers import Blocker, BlockerKind, Estimate, Holder, Wait, show_instant
from holdfast.core.scheduling.placement import Amount
from holdfast.store import schedules as schedule_rows
from holdfast.store.database import Store

from ..control import Control
from .service import Schedules

CANNOT_BE_TOLD = msg("It cannot be told: that job has not started, or has no time limit.")
BY_LIMIT = msg("By then that job has ended, at the latest, by its time limit.")


class ScheduleWaits:
    def __init__(self, store: Store, control: Control, schedules: Schedules) -> None:
        self._store = store
        self._control = control
        self._schedules = schedules

    async def of(self, actor: Actor, id: str) -> Wait:
        """NotFound when there is none that the actor may see."""
        schedule = await self._schedules.get(actor, id)
        blockers = [*_own_blockers(schedule)]
        if schedule.queued_at is not None:
            return await self._queued(actor, schedule, schedule.queued_at, blockers)
        if schedule.next_run_at is None:
            return Wait(blockers=tuple(blockers))
        return Wait(
            blockers=tuple(blockers), estimate=Estimate(at=schedule.next_run_at, basis=msg("Then its next run is due."))
        )

    async def _queued(self, actor: Actor, schedule: Schedule, due_at: datetime, others: list[Blocker]) -> Wait:
        """A run that waits until the job of an earlier one has ended."""
        busy = (await self._store.read(schedule_rows.open_jobs, [schedule.id])).get(schedule.id, ())
        holders = tuple(self._holder(actor, job_id) for job_id in busy)
        named = (f"{holder.name} ({holder.job_id})" if holder.name else msg("a job") for holder in holders)
        jobs = join_messages(", ", named)
        text = msg(
            "The run that was due at {due_at} begins once {jobs} has ended.",
            due_at=show_instant(due_at),
            jobs=jobs or msg("the job before it"),
        )
        ends = [holder.until for holder in holders]
        latest = max((end for end in ends if end is not None), default=None)
        known = bool(ends) and None not in ends
        return Wait(
            blockers=(Blocker(kind=BlockerKind.SCHEDULE, text=text, holders=holders), *others),
            helps=tuple(
                msg("`holdfast stop {job_id}` lets it begin.", job_id=holder.job_id)
                for holder in holders
                if holder.job_id
            ),
            estimate=Estimate(at=latest, basis=BY_LIMIT) if known else Estimate(at=None, basis=CANNOT_BE_TOLD),
        )

    def _holder(self, actor: Actor, job_id: str) -> Holder:
        known = self._control.known(job_id)
        if known is None or not may(actor, Verb.SEE_JOB, known.group):
            return Holder(job_id="", name="", user="", group="", has=Amount())
        return Holder(
            job_id=job_id,
            name=known.name,
            user=known.user,
            group=known.group,
            has=Amount(),
            since=known.since,
            until=known.until,
            held=known.held,
        )


def _own_blockers(schedule: Schedule) -> list[Blocker]:
    told = []
    if schedule.paused:
        told.append(msg("It is paused: `holdfast schedule resume {id}` lets it go on.", id=schedule.id))
    if schedule.invalid is not None:
        told.append(msg("It cannot run now: {message}.", message=schedule.message))
    return [Blocker(kind=BlockerKind.SCHEDULE, text=text) for text in told]
