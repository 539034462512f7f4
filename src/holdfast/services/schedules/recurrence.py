"""When schedules are due: validation of cron expressions field by field, and their next time in a time zone.

Daylight saving time: an expression with certain hours runs once for each of them. A skipped hour runs right after the
gap, a repeated hour runs the first time only. An expression for every hour runs whenever clocks show one of its
minutes.
"""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.core.errors import UserError
from holdfast.core.messages import join_messages, mark_translatable, msg
from holdfast.core.schedule import Recurrence, RecurrenceKind
from holdfast.timezones import find_machine_timezone, get_zone

MAX_CRON_LENGTH = 200  # characters of a cron expression
MAX_PREVIEWED = 100  # runs of one preview
_MAX_STEPS = 5000  # more than the minutes of three days, the largest conceivable clock change
_SECOND = timedelta(seconds=1)


class InvalidRecurrence(UserError):
    """An invalid cron expression or time zone, or an expression that never matches."""


@dataclass(frozen=True, slots=True)
class CronField:
    name: str
    minimum: int
    maximum: int
    value_names: tuple[str, ...] = ()  # names of its values, starting at the least

    def build_error(self, why: str, hint: str | None = None) -> InvalidRecurrence:
        return InvalidRecurrence(join_messages(": ", (self.name, why)), field="cron", hint=hint)


_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MINUTE_FIELD = CronField("minute", 0, 59)
HOUR_FIELD = CronField("hour", 0, 23)
DAY_FIELD = CronField(msg("day of month"), 1, 31)
MONTH_FIELD = CronField("month", 1, 12, _MONTH_NAMES)
WEEKDAY_FIELD = CronField(msg("day of week"), 0, 7, _WEEKDAY_NAMES)
CRON_FIELDS = (MINUTE_FIELD, HOUR_FIELD, DAY_FIELD, MONTH_FIELD, WEEKDAY_FIELD)
_CRON_HINT = msg(
    "Use five fields: minute, hour, day of month, month, day of week. `0 4 * * *` means every day at 4:00."
)
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


# -- cron expressions


@lru_cache(2048)
def parse_cron(text: str) -> str:
    """Return the expression with numbers for names; raise InvalidRecurrence with the invalid field and the reason."""
    parts = _split_fields(text)
    cron = " ".join(_parse_field(field, part) for field, part in zip(CRON_FIELDS, parts, strict=True))
    try:
        CronSim(cron, datetime(2000, 1, 1))
    except CronSimError:  # the only check across fields
        raise DAY_FIELD.build_error(
            msg(
                "{months} no day {days}, so the schedule never runs",
                months=_describe_months(cron.split()[3]),
                days=parts[2],
            )
        ) from None
    return cron


def _describe_months(field: str) -> str:
    """Return the months with a verb, so that "no day 30" can follow."""
    names = (
        [mark_translatable(month_name[int(part)]) for part in field.split(",")]
        if re.fullmatch(r"[0-9]+(,[0-9]+)*", field)
        else []
    )
    if len(names) == 1:
        return msg("{name} has", name=names[0])
    return (
        msg("{names} and {name} have", names=join_messages(", ", names[:-1]), name=names[-1])
        if names
        else msg("the months {field} have", field=field)
    )


def check_recurrence_length(recurrence: Recurrence) -> None:
    """Limit the length also of invalid recurrences, which are stored."""
    for field, text in (("cron", recurrence.cron or ""), ("timezone", recurrence.timezone)):
        if len(text) > MAX_CRON_LENGTH:
            raise InvalidRecurrence(
                msg("{field} can have at most {max_length} characters", field=field, max_length=MAX_CRON_LENGTH),
                field=field,
                hint=_CRON_HINT,
            )


def _split_fields(text: str) -> list[str]:
    if len(text) > MAX_CRON_LENGTH:
        raise InvalidRecurrence(
            msg("A cron expression can have at most {max_length} characters", max_length=MAX_CRON_LENGTH),
            field="cron",
            hint=_CRON_HINT,
        )
    parts = text.upper().split()
    if not parts:
        raise InvalidRecurrence(msg("The cron expression is empty"), field="cron", hint=_CRON_HINT)
    if same := _NICKNAMES.get(parts[0].lower()):
        raise InvalidRecurrence(
            msg("{text} is not a supported cron expression", text=text.strip()),
            field="cron",
            hint=msg("Use {same} instead.", same=same),
        )
    if len(parts) != len(CRON_FIELDS):
        count = msg("{path} field", path=len(parts)) if len(parts) == 1 else msg("{path} fields", path=len(parts))
        raise InvalidRecurrence(
            msg("A cron expression has five fields, but this one has {count}", count=count),
            field="cron",
            hint=_CRON_HINT,
        )
    return parts


def _parse_field(field: CronField, part: str) -> str:
    if part == "?" and field in (DAY_FIELD, WEEKDAY_FIELD):  # an alternative to *
        return "*"
    return ",".join(_parse_term(field, term) for term in part.split(","))


def _parse_term(field: CronField, term: str) -> str:
    if not term:
        raise field.build_error(msg("a value is missing next to a comma"))
    if field is DAY_FIELD and term in ("L", "LW"):  # the last day, the last one from Monday to Friday
        return term
    if field is WEEKDAY_FIELD and (special := _parse_nth_weekday(term)) is not None:
        return special
    base, slash, step = term.partition("/")
    if not slash:
        return _parse_range(field, base)
    if not _is_number(step) or int(step) == 0:
        raise field.build_error(
            msg("{step} after / in {term} is not a valid step such as 2", step=step or "nothing", term=term)
        )
    return f"{_parse_range(field, base)}/{int(step)}"


def _parse_nth_weekday(term: str) -> str | None:
    """Parse FRI#2, the second Friday of the month, or FRIL, the last one."""
    if "#" in term:
        day, _, number = term.partition("#")
        if not _is_number(number) or not 1 <= int(number) <= 5:
            raise WEEKDAY_FIELD.build_error(
                msg("{number} after # in {term} is not between 1 and 5", number=number or "nothing", term=term)
            )
        return f"{_parse_value(WEEKDAY_FIELD, day)}#{int(number)}"
    if len(term) > 1 and term.endswith("L"):
        return f"{_parse_value(WEEKDAY_FIELD, term[:-1])}L"
    return None


def _parse_range(field: CronField, base: str) -> str:
    if base == "*":
        return base
    first, dash, last = base.partition("-")
    if not dash:
        return str(_parse_value(field, first))
    start, end = _parse_value(field, first), _parse_value(field, last)
    if field is WEEKDAY_FIELD and end == 0 and start > 0:
        end = 7  # up to Sunday
    if end < start:
        raise field.build_error(
            msg("{base} is not in ascending order", base=base),
            hint=msg("Use {last}-{first}, or a list such as {first},{last}.", last=last, first=first),
        )
    return f"{start}-{end}"


def _parse_value(field: CronField, word: str) -> int:
    if word in field.value_names:
        return field.minimum + field.value_names.index(word)
    if not word:
        raise field.build_error(msg("a value is missing"))
    if not _is_number(word):
        names = msg(" or one of {choices}", choices=" ".join(field.value_names)) if field.value_names else ""
        raise field.build_error(msg("{value} is not a number{names}", value=word[:20], names=names))
    if not field.minimum <= int(word) <= field.maximum:
        raise field.build_error(
            msg(
                "{value} is not between {minimum} and {maximum}",
                value=word,
                minimum=field.minimum,
                maximum=field.maximum,
            )
        )
    return int(word)


def _is_number(word: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", word) is not None


# -- times


class RecurrenceTimes:
    """Due times of recurrences, by default in the server's time zone."""

    def __init__(self, timezone: str = "") -> None:
        self.timezone = timezone or find_machine_timezone()

    def resolve_zone(self, recurrence: Recurrence) -> ZoneInfo:
        try:
            return get_zone(recurrence.timezone or self.timezone)
        except UserError as error:
            raise InvalidRecurrence(error.message, field="timezone", hint=error.hint) from None

    def check_recurrence(self, recurrence: Recurrence, now: datetime) -> None:
        """Raise InvalidRecurrence if it is invalid or never matches."""
        self.resolve_zone(recurrence)
        if recurrence.kind is not RecurrenceKind.CUSTOM:
            return
        if self.find_next_time(recurrence, now) is None:
            raise InvalidRecurrence(msg("{cron} never runs", cron=recurrence.cron), field="cron", hint=_CRON_HINT)

    def find_next_time(self, recurrence: Recurrence, after: datetime, until: datetime | None = None) -> datetime | None:
        """Return the first time after `after`; None if there is none up to `until`."""
        return next(self.iter_times(recurrence, after, until), None)

    def iter_times(self, recurrence: Recurrence, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        here = self.resolve_zone(recurrence)
        if recurrence.kind is RecurrenceKind.INACTIVE:
            return
        cron = parse_cron(recurrence.effective_cron or "")
        found = find_next_cron_time(cron, here, after.replace(microsecond=0))  # times are whole seconds
        while found is not None and (until is None or found <= until):
            yield found
            found = find_next_cron_time(cron, here, found)

    def iter_upcoming_times(
        self, recurrence: Recurrence, after: datetime, count: int = 5, until: datetime | None = None
    ) -> Iterator[datetime]:
        """Yield the next `count` times; raise InvalidRecurrence if it is invalid."""
        if not 1 <= count <= MAX_PREVIEWED:
            raise UserError(msg("count must be between 1 and {max_shown}", max_shown=MAX_PREVIEWED), field="count")
        self.check_recurrence(recurrence, after)
        yield from islice(self.iter_times(recurrence, after, until), count)


@lru_cache(2048)  # thousands of schedules are due at the same few times
def find_next_cron_time(cron: str, here: ZoneInfo, after: datetime) -> datetime | None:
    """`cron`: parsed. The result is in UTC; None: none within fifty years or before the calendar ends."""
    try:
        start = after.astimezone(here)
        sim = CronSim(cron, start.replace(tzinfo=None))
        if len(sim.hours) == 24:  # every hour: not affected by clock changes
            sim = CronSim(cron, start)
        for _, named in zip(range(_MAX_STEPS), sim, strict=False):
            found = _resolve_local_time(named, here)
            if found > after:  # else it is in a repeated or skipped hour
                return found
    except OverflowError:
        pass
    return None


def _resolve_local_time(named: datetime, here: ZoneInfo) -> datetime:
    """Return the first instant with this local time; if it is skipped, the instant of the clock change."""
    first = named if named.tzinfo is not None else named.replace(tzinfo=here, fold=0)
    moment = first.astimezone(UTC)
    if moment.astimezone(here).replace(tzinfo=None, fold=0) == first.replace(tzinfo=None, fold=0):
        return moment
    return _find_clock_change(first.replace(fold=1).astimezone(UTC), moment, here)


def _find_clock_change(before: datetime, after: datetime, here: ZoneInfo) -> datetime:
    """Return the instant between the two at which the UTC offset changes."""
    offset = before.astimezone(here).utcoffset()
    while after - before > _SECOND:
        middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
        if middle.astimezone(here).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
