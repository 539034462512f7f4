"""What is typed in the form of a recurring job: kept as it is, and read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.schedule import Missed, Overlap, Recurrence, RecurrenceKind, Schedule

from .forms import Form
from .visit import Visit

FIRST_JOB = """\
name: nightly-report
command: |
  echo "It is $(date)"
"""
MAX_LENGTH = 200  # characters of a field
FIELDS = ("kind", "cron", "timezone", "ends_at", "overlap", "missed", "group")
_LOCAL = "%Y-%m-%dT%H:%M"  # as a browser writes a time without a zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What stands in the form, as it was typed."""

    kind: str = RecurrenceKind.DAILY.value
    cron: str = ""
    timezone: str = ""
    ends_at: str = ""
    overlap: str = Overlap.SKIP.value
    missed: str = Missed.SKIP.value
    group: str = ""
    text: str = FIRST_JOB
    now: bool = False  # it also runs once, at once


@dataclass(frozen=True, slots=True)
class Times:
    recurrence: Recurrence
    ends_at: datetime | None


def times_of(visit: Visit, typed: Typed) -> Times:
    recurrence = Recurrence(kind=RecurrenceKind(typed.kind), cron=typed.cron or None, timezone=typed.timezone)
    zone = visit.services.schedules.timing.zone(recurrence)
    return Times(recurrence, _moment(typed.ends_at, zone))


def _moment(text: str, zone: tzinfo) -> datetime | None:
    """In the zone that the schedule goes by."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(
            msg("{text} is not a time", text=repr(text[:50])),
            field="ends_at",
            hint=msg("Write it as 2027-01-31T12:00."),
        ) from None


def typed_in(form: Form) -> Typed:
    """Words that the form does not offer become the first it does."""
    kinds, usual = set(RecurrenceKind), Typed()
    return Typed(
        kind=form.text("kind") if form.text("kind") in kinds else usual.kind,
        cron=form.text("cron")[: 2 * MAX_LENGTH],  # the service says that it is too long
        timezone=form.text("timezone")[: 2 * MAX_LENGTH],
        ends_at=form.text("ends_at")[:MAX_LENGTH],
        overlap=form.text("overlap") if form.text("overlap") in set(Overlap) else usual.overlap,
        missed=form.text("missed") if form.text("missed") in set(Missed) else usual.missed,
        group=form.text("group")[:MAX_LENGTH],
        text=form.raw("text") or usual.text,
        now=form.is_on("now"),
    )


def typed_of(visit: Visit, schedule: Schedule) -> Typed:
    recurrence, ends_at = schedule.recurrence, ""
    if schedule.ends_at is not None:
        try:
            zone: tzinfo = visit.services.schedules.timing.zone(recurrence)
        except UserError:
            zone = UTC
        ends_at = schedule.ends_at.astimezone(zone).strftime(_LOCAL)
    return Typed(
        kind=recurrence.kind.value,
        cron=recurrence.cron or "",
        timezone=recurrence.timezone,
        ends_at=ends_at,
        overlap=schedule.overlap.value,
        missed=schedule.missed.value,
        group=schedule.group,
        text=schedule.source,
    )


def same_text(one: str, other: str) -> bool:
    """Browsers write line ends in their own way, and drop the first one of a text."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()
