"""Schedules for pages: status, permissions, and times in the time zone of the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from zoneinfo import available_timezones

from holdfast.core.access import Actor, can_act_on, can_rerun
from holdfast.core.schedule import RecurrenceKind, Schedule, ScheduleRun
from holdfast.services import Services
from holdfast.services.schedules.recurrence import InvalidRecurrence

MAX_UPCOMING_RUNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    schedule: Schedule
    status: str  # active, invalid, paused, on-demand or over
    zone: str  # its time zone
    cron: str  # its cron expression; empty if it only runs on demand
    last: ScheduleRun | None
    can_act: bool
    can_run: bool


@dataclass(frozen=True, slots=True)
class DueTime:
    at: datetime
    text: str  # in the time zone of the schedule and the language of the reader


def build_schedule_view(
    schedule: Schedule, services: Services, actor: Actor, last: ScheduleRun | None = None
) -> ScheduleView:
    group, owner, secrets = schedule.group, schedule.user, bool(schedule.job.secrets)
    return ScheduleView(
        schedule=schedule,
        status=get_schedule_status(schedule),
        zone=schedule.recurrence.timezone or services.schedules.timing.timezone,
        cron=schedule.recurrence.effective_cron or "",
        last=last,
        can_act=can_act_on(actor, group, owner),
        can_run=schedule.invalid is None and can_rerun(actor, group, owner, secrets=secrets),
    )


def get_schedule_status(schedule: Schedule) -> str:
    if schedule.invalid is not None:
        return "invalid"
    if schedule.paused:
        return "paused"
    if schedule.recurrence.kind is RecurrenceKind.INACTIVE:
        return "on-demand"
    return "over" if schedule.next_run_at is None and schedule.queued_at is None else "active"


async def list_next_due_times(services: Services, schedule: Schedule, language: str) -> tuple[DueTime, ...]:
    """Return the next runs; none if it is paused, invalid or only runs on demand."""
    if schedule.next_run_at is None or schedule.invalid is not None:
        return ()
    try:
        times = await services.schedules.preview_times(schedule.recurrence, MAX_UPCOMING_RUNS, ends_at=schedule.ends_at)
        return build_due_times(times, services.schedules.timing.resolve_zone(schedule.recurrence), language)
    except InvalidRecurrence:
        return ()


def build_due_times(times: Sequence[datetime], zone: tzinfo, language: str) -> tuple[DueTime, ...]:
    return tuple(DueTime(at, format_time_in_zone(at, zone, language)) for at in times)


def format_time_in_zone(at: datetime, zone: tzinfo, language: str) -> str:
    """Format as Mon, Nov 16, 2026, 04:00 EST in the language of the reader. Scripts only know the local time zone."""
    from babel.dates import format_skeleton  # uses a megabyte, so it is loaded on first use

    there = at.astimezone(zone)
    date = format_skeleton("yMMMEd", there, locale=language.replace("-", "_"))
    return f"{date} {there:%H:%M} {there:%Z}"


@cache
def list_zone_names() -> tuple[str, ...]:
    """Return the time zones to choose from: locations and UTC."""
    places = (name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return (*sorted(places), "UTC")
