"""Schedules as pages show them: how each stands, who may do what with it, and its times in its own zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from zoneinfo import available_timezones

from holdfast.core.access import Actor, may_act, may_run_again
from holdfast.core.schedule import RecurrenceKind, Run, Schedule
from holdfast.services import Services
from holdfast.services.schedules.recurrence import BadRecurrence

UPCOMING = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    schedule: Schedule
    status: str  # active, invalid, paused, on-demand or over
    zone: str  # the one it goes by
    cron: str  # the text it goes by; empty when it never runs by itself
    last: Run | None
    may_act: bool
    may_run: bool


@dataclass(frozen=True, slots=True)
class DueTime:
    at: datetime
    text: str  # in the zone of the schedule, in the reader's language


def view_of(schedule: Schedule, services: Services, actor: Actor, last: Run | None = None) -> ScheduleView:
    group, owner, secrets = schedule.group, schedule.user, bool(schedule.job.secrets)
    return ScheduleView(
        schedule=schedule,
        status=status_of(schedule),
        zone=schedule.recurrence.timezone or services.schedules.timing.timezone,
        cron=schedule.recurrence.in_force or "",
        last=last,
        may_act=may_act(actor, group, owner),
        may_run=schedule.invalid is None and may_run_again(actor, group, owner, secrets=secrets),
    )


def status_of(schedule: Schedule) -> str:
    if schedule.invalid is not None:
        return "invalid"
    if schedule.paused:
        return "paused"
    if schedule.recurrence.kind is RecurrenceKind.INACTIVE:
        return "on-demand"
    return "over" if schedule.next_run_at is None and schedule.queued_at is None else "active"


async def next_runs(services: Services, schedule: Schedule, language: str) -> tuple[DueTime, ...]:
    """None where it does not run by itself just now."""
    if schedule.next_run_at is None or schedule.invalid is not None:
        return ()
    try:
        times = await services.schedules.preview(schedule.recurrence, UPCOMING, ends_at=schedule.ends_at)
        return due_times(times, services.schedules.timing.zone(schedule.recurrence), language)
    except BadRecurrence:
        return ()


def due_times(times: Sequence[datetime], zone: tzinfo, language: str) -> tuple[DueTime, ...]:
    return tuple(DueTime(at, show_in_zone(at, zone, language)) for at in times)


def show_in_zone(at: datetime, zone: tzinfo, language: str) -> str:
    """Mon, Nov 16, 2026, 04:00 EST; in the reader's language. Scripts know the reader's own zone only."""
    from babel.dates import format_skeleton  # a megabyte, on first use

    there = at.astimezone(zone)
    date = format_skeleton("yMMMEd", there, locale=language.replace("-", "_"))
    return f"{date} {there:%H:%M} {there:%Z}"


@cache
def zone_names() -> tuple[str, ...]:
    """Those that people look for: a place, or UTC."""
    places = (name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return (*sorted(places), "UTC")
