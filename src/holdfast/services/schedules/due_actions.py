"""What a schedule does when it is due. Pure functions: callers have checked jobs and permissions before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.core.messages import msg
from holdfast.core.schedule import InvalidReason, MissedRunPolicy, OverlapPolicy, RunResult, Schedule
from holdfast.store.schedules import NewScheduleRun, ScheduleStep

from .recurrence import InvalidRecurrence, RecurrenceTimes

GRACE_PERIOD = timedelta(seconds=120)  # a time that is overdue for longer counts as missed
MAX_CLOCK_SLIP = timedelta(hours=25)  # a clock set back by more is assumed to be intentional


def should_start_job(schedule: Schedule, due_at: datetime, now: datetime, busy: bool) -> bool:
    """Return whether a job should start now, before permissions are checked."""
    if now - due_at > GRACE_PERIOD and schedule.missed is MissedRunPolicy.SKIP:
        return False
    return not busy or schedule.overlap is OverlapPolicy.CANCEL


def build_skipped_step(
    schedule: Schedule, due_at: datetime, now: datetime, earlier: str, timing: RecurrenceTimes
) -> ScheduleStep:
    """Return the turn for a missed time, or for one that is blocked by `earlier`, an unfinished job."""
    if now - due_at > GRACE_PERIOD and schedule.missed is MissedRunPolicy.SKIP:
        message = msg("The run was missed, and this schedule skips missed runs")
        run = NewScheduleRun(due_at=due_at, at=now, result=RunResult.MISSED, message=message)
        # One row for all missed times. The newest of them may be recent enough to run.
        return ScheduleStep(after=advance_schedule(schedule, now - GRACE_PERIOD, timing), run=run)
    after = advance_schedule(schedule, get_catch_up_time(due_at, now), timing)
    if schedule.overlap is OverlapPolicy.QUEUE and schedule.queued_at is None:
        return ScheduleStep(after=replace(after, queued_at=due_at))
    also = msg(", and another run is already queued") if schedule.queued_at is not None else ""
    message = msg("The earlier job {earlier} has not finished{addition}", earlier=earlier, addition=also)
    return ScheduleStep(
        after=after, run=NewScheduleRun(due_at=due_at, at=now, result=RunResult.SKIPPED, message=message)
    )


def get_catch_up_time(due_at: datetime, now: datetime) -> datetime:
    """Return the time after which to search for the next run: one run replaces all missed ones."""
    return now if now - due_at > GRACE_PERIOD else due_at


def advance_schedule(schedule: Schedule, after: datetime, timing: RecurrenceTimes) -> Schedule:
    """Mark the due time as handled and set the next one."""
    return set_next_run(replace(schedule, last_run_at=schedule.next_run_at), after, timing)


def set_next_run(schedule: Schedule, after: datetime, timing: RecurrenceTimes) -> Schedule:
    if schedule.paused:
        return replace(schedule, next_run_at=None)
    try:
        return replace(schedule, next_run_at=timing.find_next_time(schedule.recurrence, after, schedule.ends_at))
    except InvalidRecurrence as error:
        reason = InvalidReason.TIMEZONE if error.field == "timezone" else InvalidReason.CRON
        return replace(schedule, next_run_at=None, invalid=reason, message=error.message)


def get_search_start(schedule: Schedule, now: datetime) -> datetime:
    """Return the time after which to search for the next run; a clock that was set back runs nothing twice."""
    last = schedule.last_run_at
    return last if last is not None and now < last < now + MAX_CLOCK_SLIP else now


def refresh_next_run(schedule: Schedule, now: datetime, timing: RecurrenceTimes) -> Schedule:
    """Recompute the next run, unless it is already due."""
    if schedule.next_run_at is not None and schedule.next_run_at <= now:
        return schedule
    return set_next_run(schedule, get_search_start(schedule, now), timing)
