"""Schedules and their runs as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from holdfast.core.errors import UserError

from .. import output
from ..quantities import format_duration, format_local_time, utc_now

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.sdk import Run, Schedule, ScheduleDetail

_RECURRENCE_DESCRIPTIONS = {
    "inactive": "on demand",
    "daily": "every day at 4:00",
    "weekly": "every Sunday at 4:00",
    "monthly": "on the 1st at 4:00",
}


def print_schedule(found: ScheduleDetail, json: bool) -> None:
    for warning in found.warnings:
        output.print_warning(warning)
    if json:
        output.emit_json(found)
        return
    output.emit_styled(f"{output.escape(found.name)}  {found.id}", "bold")
    for label, text in _iter_schedule_fields(found):
        output.emit_line(f"  {label:<11} {output.escape(text)}")
    here, now = find_zone(found.timezone), utc_now()
    for at, moment in enumerate(() if found.invalid else found.next_runs):
        output.emit_line(
            f"  {'' if at else 'next runs':<11} {format_time(moment, here)}  {format_time_difference(moment, now)}"
        )


def _iter_schedule_fields(found: ScheduleDetail) -> Iterator[tuple[str, str]]:
    if found.invalid:
        yield "cannot run", found.message
    timed = found.recurrence.kind != "inactive"
    yield "when", f"{describe_recurrence(found)}, time zone {found.timezone}" if timed else describe_recurrence(found)
    if found.paused:
        yield "paused", "until resumed"
    yield "owner", f"{found.user}, group {found.group}"
    if timed:
        yield "overlap", _OVERLAP_DESCRIPTIONS.get(found.overlap, found.overlap)
        yield "missed", _MISSED_RUN_DESCRIPTIONS.get(found.missed, found.missed)
    if found.ends_at:
        yield "ends", format_time(found.ends_at, find_zone(found.timezone))
    if found.queued_at:
        yield "queued", f"run of {format_local_time(found.queued_at)}, waiting for the previous job to end"
    if found.last_run_at:
        yield "last run", format_time(found.last_run_at, find_zone(found.timezone))


_OVERLAP_DESCRIPTIONS = {
    "skip": "skip the run if the previous job still runs",
    "queue": "wait for the previous job to end",
    "cancel": "stop the previous job",
}
_MISSED_RUN_DESCRIPTIONS = {"skip": "skip missed runs", "once": "run once for all missed runs"}


def report_change(found: ScheduleDetail, text: str, json: bool) -> None:
    output.emit_result(found, text, json)


def describe_recurrence(schedule: Schedule) -> str:
    recurrence = schedule.recurrence
    return _RECURRENCE_DESCRIPTIONS.get(recurrence.kind) or recurrence.cron or ""


def _describe_next_run(schedule: Schedule, now: datetime) -> str:
    return "  ".join(build_next_run_cells(schedule, now))


def build_next_run_cells(schedule: Schedule, now: datetime) -> tuple[str, str]:
    """Return the time of the next run, and how far away it is."""
    if schedule.invalid:
        return "cannot run", ""
    if schedule.paused:
        return "paused", ""
    if schedule.next_run_at is None:
        return "" if schedule.recurrence.kind == "inactive" else "ended", ""
    return format_time(schedule.next_run_at, find_zone(schedule.timezone)), format_time_difference(
        schedule.next_run_at, now
    )


def format_time(at: datetime, zone: tzinfo | None) -> str:
    """Format in the time zone of the schedule."""
    return at.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")


def format_time_difference(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"in {format_duration(seconds)}" if seconds > 0 else "now"


def find_zone(name: str) -> tzinfo | None:
    """Return the time zone; None, for local time, if this machine does not know it."""
    from holdfast.timezones import get_zone

    try:
        return get_zone(name)
    except UserError:
        return None


def build_result_cell(run: Run) -> Text:
    from rich.text import Text

    styles = {"started": "green", "failed": "red", "missed": "yellow", "skipped": "yellow"}
    return Text(output.escape(run.result), style=styles.get(run.result, ""))


def build_run_state_cell(run: Run) -> Text | str:
    return "" if run.state is None else output.build_state_cell(run.state)


def format_run_actor(run: Run) -> str:
    return "" if run.actor == "holdfast" else run.actor


def describe_schedule_status(found: ScheduleDetail) -> str:
    if found.invalid:
        return f", but it cannot run: {output.escape(found.message)}"
    if found.recurrence.kind == "inactive":
        return "; it runs only on demand."
    return f"; next run: {_describe_next_run(found, utc_now())}"
