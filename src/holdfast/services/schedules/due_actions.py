"""What a schedule does when it is due. Pure: whoever calls it has looked at jobs and rights before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.core.messages import msg
from holdfast.core.schedule import Invalid, Missed, Overlap, RunResult, Schedule
from holdfast.store.schedules import NewRun, Turn

from .recurrence import BadRecurrence, Timing

GRACE = timedelta(seconds=120)  # a time that is due for longer counts as missed
CLOCK_SLIP = timedelta(hours=25)  # clocks are set back by less; whoever set theirs further meant it


def wants_job(schedule: Schedule, due_at: datetime, now: datetime, busy: bool) -> bool:
    """Whether it should run now, if it may."""
    if now - due_at > GRACE and schedule.missed is Missed.SKIP:
        return False
    return not busy or schedule.overlap is Overlap.CANCEL


def turn_without_job(schedule: Schedule, due_at: datetime, now: datetime, earlier: str, timing: Timing) -> Turn:
    """For a time that was missed, or that finds `earlier`, a job that is not finished."""
    if now - due_at > GRACE and schedule.missed is Missed.SKIP:
        message = msg("Nothing ran when it was due, and it is to be skipped then")
        run = NewRun(due_at=due_at, at=now, result=RunResult.MISSED, message=message)
        # One row for all that were missed. The newest of them may be recent enough to be run.
        return Turn(after=moved_on(schedule, now - GRACE, timing), run=run)
    after = moved_on(schedule, caught_up(due_at, now), timing)
    if schedule.overlap is Overlap.QUEUE and schedule.queued_at is None:
        return Turn(after=replace(after, queued_at=due_at))
    also = msg(", and another run waits for it") if schedule.queued_at is not None else ""
    message = msg("{earlier} was not finished{also}", earlier=earlier, also=also)
    return Turn(after=after, run=NewRun(due_at=due_at, at=now, result=RunResult.SKIPPED, message=message))


def caught_up(due_at: datetime, now: datetime) -> datetime:
    """After which moment the next time is looked for: one run makes up for all that were missed."""
    return now if now - due_at > GRACE else due_at


def moved_on(schedule: Schedule, after: datetime, timing: Timing) -> Schedule:
    """Its due time is dealt with, and never comes again."""
    return with_next(replace(schedule, last_run_at=schedule.next_run_at), after, timing)


def with_next(schedule: Schedule, after: datetime, timing: Timing) -> Schedule:
    """With the next time it is due after that moment, if it ever is."""
    if schedule.paused:
        return replace(schedule, next_run_at=None)
    try:
        return replace(schedule, next_run_at=timing.next(schedule.recurrence, after, schedule.ends_at))
    except BadRecurrence as error:
        reason = Invalid.TIMEZONE if error.field == "timezone" else Invalid.CRON
        return replace(schedule, next_run_at=None, invalid=reason, message=error.message)


def looked_from(schedule: Schedule, now: datetime) -> datetime:
    """Where to look for the next time from: a clock that was set back makes nothing run twice."""
    last = schedule.last_run_at
    return last if last is not None and now < last < now + CLOCK_SLIP else now


def retimed(schedule: Schedule, now: datetime, timing: Timing) -> Schedule:
    """What is due already stays so, and is dealt with as late as it is."""
    if schedule.next_run_at is not None and schedule.next_run_at <= now:
        return schedule
    return with_next(schedule, looked_from(schedule, now), timing)
