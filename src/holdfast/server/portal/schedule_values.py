"""Typed values of the schedule form, and their parsing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.schedule import MissedRunPolicy, OverlapPolicy, Recurrence, RecurrenceKind, Schedule

from .forms import Form
from .visit import Visit

DEFAULT_JOB_TEXT = """\
name: nightly-report
command: |
  echo "It is $(date)"
"""
MAX_FIELD_LENGTH = 200  # characters of a field
SCHEDULE_FORM_FIELDS = ("kind", "cron", "timezone", "ends_at", "overlap", "missed", "group")
_LOCAL_TIME_FORMAT = "%Y-%m-%dT%H:%M"  # as browsers send a time without a time zone


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFormValues:
    """The values of the form as typed."""

    kind: str = RecurrenceKind.DAILY.value
    cron: str = ""
    timezone: str = ""
    ends_at: str = ""
    overlap: str = OverlapPolicy.SKIP.value
    missed: str = MissedRunPolicy.SKIP.value
    group: str = ""
    text: str = DEFAULT_JOB_TEXT
    now: bool = False  # also run it once now


@dataclass(frozen=True, slots=True)
class ScheduleTimes:
    recurrence: Recurrence
    ends_at: datetime | None


def parse_schedule_times(visit: Visit, typed: ScheduleFormValues) -> ScheduleTimes:
    recurrence = Recurrence(kind=RecurrenceKind(typed.kind), cron=typed.cron or None, timezone=typed.timezone)
    zone = visit.services.schedules.timing.resolve_zone(recurrence)
    return ScheduleTimes(recurrence, _parse_local_time(typed.ends_at, zone))


def _parse_local_time(text: str, zone: tzinfo) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(
            msg("{text} is not a valid time", text=repr(text[:50])),
            field="ends_at",
            hint=msg("Use the format 2027-01-31T12:00."),
        ) from None


def read_schedule_form(form: Form) -> ScheduleFormValues:
    """Read the form. Unknown options become the first known one."""
    kinds, usual = set(RecurrenceKind), ScheduleFormValues()
    return ScheduleFormValues(
        kind=form.get_text("kind") if form.get_text("kind") in kinds else usual.kind,
        cron=form.get_text("cron")[: 2 * MAX_FIELD_LENGTH],  # the service reports that it is too long
        timezone=form.get_text("timezone")[: 2 * MAX_FIELD_LENGTH],
        ends_at=form.get_text("ends_at")[:MAX_FIELD_LENGTH],
        overlap=form.get_text("overlap") if form.get_text("overlap") in set(OverlapPolicy) else usual.overlap,
        missed=form.get_text("missed") if form.get_text("missed") in set(MissedRunPolicy) else usual.missed,
        group=form.get_text("group")[:MAX_FIELD_LENGTH],
        text=form.get_raw_text("text") or usual.text,
        now=form.is_checked("now"),
    )


def build_schedule_form_values(visit: Visit, schedule: Schedule) -> ScheduleFormValues:
    recurrence, ends_at = schedule.recurrence, ""
    if schedule.ends_at is not None:
        try:
            zone: tzinfo = visit.services.schedules.timing.resolve_zone(recurrence)
        except UserError:
            zone = UTC
        ends_at = schedule.ends_at.astimezone(zone).strftime(_LOCAL_TIME_FORMAT)
    return ScheduleFormValues(
        kind=recurrence.kind.value,
        cron=recurrence.cron or "",
        timezone=recurrence.timezone,
        ends_at=ends_at,
        overlap=schedule.overlap.value,
        missed=schedule.missed.value,
        group=schedule.group,
        text=schedule.source,
    )


def is_same_text(one: str, other: str) -> bool:
    """Compare texts, ignoring line end styles and a leading line break, which browsers drop."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()
