"""Why no run of a schedule is active: what a queued run waits for, or when the next one is due."""

from __future__ import annotations

from datetime import datetime

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.messages import join_messages, msg
from holdfast.core.schedule import Schedule
from holdfast.core.scheduling.blockers import (
    Blocker,
    BlockerKind,
    Estimate,
    ResourceHolder,
    WaitExplanation,
    format_utc_time,
)
from holdfast.core.scheduling.placement import ResourceAmount
from holdfast.store import schedules as schedule_rows
from holdfast.store.database import Store

from ..control import Control
from .service import Schedules

UNKNOWN_END_BASIS = msg("Unknown: that job has not started or has no time limit.")
END_BY_LIMIT_BASIS = msg("That job ends by then at the latest because of its time limit.")


class ScheduleWaitReasons:
    def __init__(self, store: Store, control: Control, schedules: Schedules) -> None:
        self._store = store
        self._control = control
        self._schedules = schedules

    async def explain_schedule(self, actor: Actor, id: str) -> WaitExplanation:
        """Return why no run is active; raise NotFound if the actor cannot see the schedule."""
        schedule = await self._schedules.get(actor, id)
        blockers = [*_list_own_blockers(schedule)]
        if schedule.queued_at is not None:
            return await self._explain_queued_run(actor, schedule, schedule.queued_at, blockers)
        if schedule.next_run_at is None:
            return WaitExplanation(blockers=tuple(blockers))
        return WaitExplanation(
            blockers=tuple(blockers), estimate=Estimate(at=schedule.next_run_at, basis=msg("Its next run is due then."))
        )

    async def _explain_queued_run(
        self, actor: Actor, schedule: Schedule, due_at: datetime, others: list[Blocker]
    ) -> WaitExplanation:
        """Explain a run that is queued until the job of an earlier run has ended."""
        busy = (await self._store.read(schedule_rows.load_open_jobs_by_schedule, [schedule.id])).get(schedule.id, ())
        holders = tuple(self._build_resource_holder(actor, job_id) for job_id in busy)
        named = (f"{holder.name} ({holder.job_id})" if holder.name else msg("a job") for holder in holders)
        jobs = join_messages(", ", named)
        text = msg(
            "The run due at {due_at} starts when {jobs} has ended.",
            due_at=format_utc_time(due_at),
            jobs=jobs or msg("the previous job"),
        )
        ends = [holder.until for holder in holders]
        latest = max((end for end in ends if end is not None), default=None)
        known = bool(ends) and None not in ends
        return WaitExplanation(
            blockers=(Blocker(kind=BlockerKind.SCHEDULE, text=text, holders=holders), *others),
            helps=tuple(
                msg("Run `holdfast stop {job_id}` to let it start.", job_id=holder.job_id)
                for holder in holders
                if holder.job_id
            ),
            estimate=Estimate(at=latest, basis=END_BY_LIMIT_BASIS)
            if known
            else Estimate(at=None, basis=UNKNOWN_END_BASIS),
        )

    def _build_resource_holder(self, actor: Actor, job_id: str) -> ResourceHolder:
        known = self._control.find_job_info(job_id)
        if known is None or not has_permission(actor, Permission.SEE_JOB, known.group):
            return ResourceHolder(job_id="", name="", user="", group="", has=ResourceAmount())
        return ResourceHolder(
            job_id=job_id,
            name=known.name,
            user=known.user,
            group=known.group,
            has=ResourceAmount(),
            since=known.since,
            until=known.until,
            held=known.held,
        )


def _list_own_blockers(schedule: Schedule) -> list[Blocker]:
    reasons = []
    if schedule.paused:
        reasons.append(msg("It is paused. Run `holdfast schedule resume {id}` to resume it.", id=schedule.id))
    if schedule.invalid is not None:
        reasons.append(msg("It cannot run now: {message}.", message=schedule.message))
    return [Blocker(kind=BlockerKind.SCHEDULE, text=text) for text in reasons]
