"""When schedules are due: cron text checked field by field, and the next time it names in a time zone.

Where a zone's clocks are changed: cron text that names hours runs once for each of them. One that is skipped runs as
soon as it is over, one that comes twice runs the first time only. Cron text for every hour runs
whenever clocks show one of its minutes.
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
from holdfast.core.messages import join_messages, msg, noun
from holdfast.core.schedule import Recurrence, RecurrenceKind
from holdfast.timezones import machine_timezone, zone

MAX_LENGTH = 200  # characters of cron text
MAX_SHOWN = 100  # runs of one preview
_MAX_STEPS = 5000  # more than the minutes of three days: no clock was ever set back or forth by as much
_SECOND = timedelta(seconds=1)


class BadRecurrence(UserError):
    """Cron text or a time zone that cannot be, or a time that never comes."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()  # for its values, from the least on

    def wrong(self, why: str, hint: str | None = None) -> BadRecurrence:
        return BadRecurrence(join_messages(": ", (self.name, why)), field="cron", hint=hint)


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field(msg("day of month"), 1, 31)
MONTH = Field("month", 1, 12, _MONTHS)
WEEKDAY = Field(msg("day of week"), 0, 7, _DAYS)
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_FORM = msg("Five fields: minute, hour, day of month, month, day of week; `0 4 * * *` is every day at 4:00.")
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


# -- cron text


@lru_cache(2048)
def parse_cron(text: str) -> str:
    """The same with numbers for names; BadRecurrence says which field is wrong, and why."""
    parts = _split(text)
    cron = " ".join(_field(field, part) for field, part in zip(FIELDS, parts, strict=True))
    try:
        CronSim(cron, datetime(2000, 1, 1))
    except CronSimError:  # the one thing it sees beyond single fields
        raise DAY.wrong(
            msg("{x1} no day {x2}, so it would never run", x1=_months(cron.split()[3]), x2=parts[2])
        ) from None
    return cron


def _months(field: str) -> str:
    """With its verb, so that "no day 30" can follow."""
    names = (
        [noun(month_name[int(part)]) for part in field.split(",")] if re.fullmatch(r"[0-9]+(,[0-9]+)*", field) else []
    )
    if len(names) == 1:
        return msg("{x1} has", x1=names[0])
    return (
        msg("{names} and {x1} have", names=join_messages(", ", names[:-1]), x1=names[-1])
        if names
        else msg("the months {field} have", field=field)
    )


def check_length(recurrence: Recurrence) -> None:
    """For what is kept, be it wrong."""
    for field, text in (("cron", recurrence.cron or ""), ("timezone", recurrence.timezone)):
        if len(text) > MAX_LENGTH:
            raise BadRecurrence(
                msg("{field} may have at most {longest} characters", field=field, longest=MAX_LENGTH),
                field=field,
                hint=_FORM,
            )


def _split(text: str) -> list[str]:
    if len(text) > MAX_LENGTH:
        raise BadRecurrence(
            msg("Cron text may have at most {longest} characters", longest=MAX_LENGTH), field="cron", hint=_FORM
        )
    parts = text.upper().split()
    if not parts:
        raise BadRecurrence(msg("The cron text is empty"), field="cron", hint=_FORM)
    if same := _NICKNAMES.get(parts[0].lower()):
        raise BadRecurrence(
            msg("{text} is not cron text", text=text.strip()),
            field="cron",
            hint=msg("Write {same} instead.", same=same),
        )
    if len(parts) != len(FIELDS):
        count = msg("{parts} field", parts=len(parts)) if len(parts) == 1 else msg("{parts} fields", parts=len(parts))
        raise BadRecurrence(
            msg("Cron text has five fields, this one has {count}", count=count), field="cron", hint=_FORM
        )
    return parts


def _field(field: Field, part: str) -> str:
    if part == "?" and field in (DAY, WEEKDAY):  # what some write for "any"
        return "*"
    return ",".join(_term(field, term) for term in part.split(","))


def _term(field: Field, term: str) -> str:
    if not term:
        raise field.wrong(msg("a value is missing beside a comma"))
    if field is DAY and term in ("L", "LW"):  # the last day, the last one from Monday to Friday
        return term
    if field is WEEKDAY and (special := _nth_weekday(term)) is not None:
        return special
    base, slash, step = term.partition("/")
    if not slash:
        return _span(field, base)
    if not _is_number(step) or int(step) == 0:
        raise field.wrong(
            msg("{step} after the / of {term} is not a step, such as 2", step=step or "nothing", term=term)
        )
    return f"{_span(field, base)}/{int(step)}"


def _nth_weekday(term: str) -> str | None:
    """FRI#2 is the second Friday of the month, FRIL the last one."""
    if "#" in term:
        day, _, number = term.partition("#")
        if not _is_number(number) or not 1 <= int(number) <= 5:
            raise WEEKDAY.wrong(
                msg("{number} after the # of {term} is not between 1 and 5", number=number or "nothing", term=term)
            )
        return f"{_value(WEEKDAY, day)}#{int(number)}"
    if len(term) > 1 and term.endswith("L"):
        return f"{_value(WEEKDAY, term[:-1])}L"
    return None


def _span(field: Field, base: str) -> str:
    if base == "*":
        return base
    first, dash, last = base.partition("-")
    if not dash:
        return str(_value(field, first))
    start, end = _value(field, first), _value(field, last)
    if field is WEEKDAY and end == 0 and start > 0:
        end = 7  # up to Sunday
    if end < start:
        raise field.wrong(
            msg("{base} goes backwards", base=base),
            hint=msg("Write {last}-{first}, or a list such as {first},{last}.", last=last, first=first),
        )
    return f"{start}-{end}"


def _value(field: Field, word: str) -> int:
    if word in field.words:
        return field.least + field.words.index(word)
    if not word:
        raise field.wrong(msg("a value is missing"))
    if not _is_number(word):
        names = msg(", nor one of {words}", words=" ".join(field.words)) if field.words else ""
        raise field.wrong(msg("{word} is not a number{names}", word=word[:20], names=names))
    if not field.least <= int(word) <= field.most:
        raise field.wrong(
            msg("{word} is not between {least} and {most}", word=word, least=field.least, most=field.most)
        )
    return int(word)


def _is_number(word: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", word) is not None


# -- times


class Timing:
    """Goes by the server's zone where a recurrence names none."""

    def __init__(self, timezone: str = "") -> None:
        self.timezone = timezone or machine_timezone()

    def zone(self, recurrence: Recurrence) -> ZoneInfo:
        try:
            return zone(recurrence.timezone or self.timezone)
        except UserError as error:
            raise BadRecurrence(error.message, field="timezone", hint=error.hint) from None

    def check(self, recurrence: Recurrence, now: datetime) -> None:
        """BadRecurrence when it cannot be, or names a time that never comes."""
        self.zone(recurrence)
        if recurrence.kind is not RecurrenceKind.CUSTOM:
            return
        if self.next(recurrence, now) is None:
            raise BadRecurrence(msg("{cron} would never run", cron=recurrence.cron), field="cron", hint=_FORM)

    def next(self, recurrence: Recurrence, after: datetime, until: datetime | None = None) -> datetime | None:
        """The first time it names after that moment; None when there is none, or none up to `until`."""
        return next(self.times(recurrence, after, until), None)

    def times(self, recurrence: Recurrence, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """All of them, one after the other."""
        here = self.zone(recurrence)
        if recurrence.kind is RecurrenceKind.INACTIVE:
            return
        cron = parse_cron(recurrence.in_force or "")
        found = next_time(cron, here, after.replace(microsecond=0))  # times are whole seconds
        while found is not None and (until is None or found <= until):
            yield found
            found = next_time(cron, here, found)

    def preview(
        self, recurrence: Recurrence, after: datetime, count: int = 5, until: datetime | None = None
    ) -> tuple[datetime, ...]:
        """The next few; BadRecurrence tells what is wrong."""
        return tuple(self.upcoming(recurrence, after, count, until))

    def upcoming(
        self, recurrence: Recurrence, after: datetime, count: int = 5, until: datetime | None = None
    ) -> Iterator[datetime]:
        """The same, one after the other."""
        if not 1 <= count <= MAX_SHOWN:
            raise UserError(msg("count is between 1 and {most_shown}", most_shown=MAX_SHOWN), field="count")
        self.check(recurrence, after)
        yield from islice(self.times(recurrence, after, until), count)


@lru_cache(2048)  # thousands of schedules are due at the same few times
def next_time(cron: str, here: ZoneInfo, after: datetime) -> datetime | None:
    """The first moment after `after` that parsed cron text names, in UTC. None: there is none in fifty years, or before
    the calendar ends."""
    try:
        start = after.astimezone(here)
        sim = CronSim(cron, start.replace(tzinfo=None))
        if len(sim.hours) == 24:  # every hour: whatever clocks do, it goes on at its pace
            sim = CronSim(cron, start)
        for _, named in zip(range(_MAX_STEPS), sim, strict=False):
            found = _moment(named, here)
            if found > after:  # else it is of an hour that came twice, or of one that was skipped
                return found
    except OverflowError:
        pass
    return None


def _moment(named: datetime, here: ZoneInfo) -> datetime:
    """The first moment at which clocks show this; when they skip it, the one at which they do."""
    first = named if named.tzinfo is not None else named.replace(tzinfo=here, fold=0)
    moment = first.astimezone(UTC)
    if moment.astimezone(here).replace(tzinfo=None, fold=0) == first.replace(tzinfo=None, fold=0):
        return moment
    return _after_gap(first.replace(fold=1).astimezone(UTC), moment, here)


def _after_gap(before: datetime, after: datetime, here: ZoneInfo) -> datetime:
    """The moment between the two at which clocks were changed."""
    offset = before.astimezone(here).utcoffset()
    while after - before > _SECOND:
        middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
        if middle.astimezone(here).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
