"""When schedules are due: cron text, time zones, and days on which clocks are changed."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import UserError
from holdfast.core.schedule import CRON_PRESETS, Recurrence, RecurrenceKind
from holdfast.services.schedules.recurrence import InvalidRecurrence, RecurrenceTimes, find_next_cron_time, parse_cron
from tests.longer import examples


def times(cron: str, zone: str, after: str, count: int) -> list[str]:
    """As the zone's clocks show them, from a moment of those clocks on."""
    here = ZoneInfo(zone)
    at = datetime.fromisoformat(after).replace(tzinfo=here)
    found = []
    for _ in range(count):
        moment = find_next_cron_time(parse_cron(cron), here, at)
        if moment is None:
            break
        found.append(moment.astimezone(here).strftime("%Y-%m-%d %H:%M%z"))
        at = moment
    return found


NEW_YORK, BERLIN, LORD_HOWE, TAIPEI = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Taipei"

DAYLIGHT = [
    # New York skips 02:00-03:00 on 8 March 2026, and has 01:00-02:00 twice on 1 November.
    (NEW_YORK, "0 4 * * *", "2026-03-07 12:00", ["2026-03-08 04:00-0400", "2026-03-09 04:00-0400"]),
    (NEW_YORK, "30 2 * * *", "2026-03-07 12:00", ["2026-03-08 03:00-0400", "2026-03-09 02:30-0400"]),
    (NEW_YORK, "*/20 2 * * *", "2026-03-07 12:00", ["2026-03-08 03:00-0400", "2026-03-09 02:00-0400"]),
    (NEW_YORK, "0 2,3 * * *", "2026-03-07 12:00", ["2026-03-08 03:00-0400", "2026-03-09 02:00-0400"]),
    (NEW_YORK, "0 */2 * * *", "2026-03-08 00:30", ["2026-03-08 03:00-0400", "2026-03-08 04:00-0400"]),
    (NEW_YORK, "30 1 * * *", "2026-10-31 12:00", ["2026-11-01 01:30-0400", "2026-11-02 01:30-0500"]),
    (NEW_YORK, "*/30 1 * * *", "2026-11-01 00:00", ["2026-11-01 01:00-0400", "2026-11-01 01:30-0400",
                                                    "2026-11-02 01:00-0500"]),
    (NEW_YORK, "0 * * * *", "2026-11-01 00:30", ["2026-11-01 01:00-0400", "2026-11-01 01:00-0500",
                                                 "2026-11-01 02:00-0500"]),
    (NEW_YORK, "*/30 * * * *", "2026-03-08 01:00", ["2026-03-08 01:30-0500", "2026-03-08 03:00-0400",
                                                    "2026-03-08 03:30-0400"]),
    # Berlin skips 02:00-03:00 on 29 March 2026, and has it twice on 25 October.
    (BERLIN, "30 2 * * *", "2026-03-28 12:00", ["2026-03-29 03:00+0200", "2026-03-30 02:30+0200"]),
    (BERLIN, "30 2 * * *", "2026-10-24 12:00", ["2026-10-25 02:30+0200", "2026-10-26 02:30+0100"]),
    (BERLIN, "0 */2 * * *", "2026-10-25 01:00", ["2026-10-25 02:00+0200", "2026-10-25 04:00+0100"]),
    (BERLIN, "15 2 29 3 *", "2026-01-01 00:00", ["2026-03-29 03:00+0200", "2027-03-29 02:15+0200"]),
    # Lord Howe moves by half an hour: 02:00-02:30 is skipped on 4 October, 01:30-02:00 comes twice on 5 April.
    (LORD_HOWE, "15 2 * * *", "2026-10-03 12:00", ["2026-10-04 02:30+1100", "2026-10-05 02:15+1100"]),
    (LORD_HOWE, "45 2 * * *", "2026-10-03 12:00", ["2026-10-04 02:45+1100", "2026-10-05 02:45+1100"]),
    (LORD_HOWE, "45 1 * * *", "2026-04-04 12:00", ["2026-04-05 01:45+1100", "2026-04-06 01:45+1030"]),
    (LORD_HOWE, "*/20 * * * *", "2026-04-05 01:10", ["2026-04-05 01:20+1100", "2026-04-05 01:40+1100",
                                                     "2026-04-05 01:40+1030", "2026-04-05 02:00+1030"]),
    # Taipei leaves its clocks alone.
    (TAIPEI, "30 2 * * *", "2026-03-28 12:00", ["2026-03-29 02:30+0800", "2026-03-30 02:30+0800"]),
    (TAIPEI, "0 * * * *", "2026-10-25 01:30", ["2026-10-25 02:00+0800", "2026-10-25 03:00+0800"]),
    # Where midnight itself is skipped, or comes twice.
    ("Africa/Cairo", "0 0 * * *", "2026-04-23 12:00", ["2026-04-24 01:00+0300", "2026-04-25 00:00+0300"]),
    ("Africa/Cairo", "0 * 24 4 *", "2026-04-23 12:00", ["2026-04-24 01:00+0300", "2026-04-24 02:00+0300"]),
    ("Asia/Beirut", "0 0 * * *", "2026-03-28 12:00", ["2026-03-29 01:00+0300", "2026-03-30 00:00+0300"]),
    ("America/Sao_Paulo", "0 0 * * *", "2018-11-03 12:00", ["2018-11-04 01:00-0200", "2018-11-05 00:00-0200"]),
    ("America/Sao_Paulo", "30 23 * * *", "2018-02-17 12:00", ["2018-02-17 23:30-0200", "2018-02-18 23:30-0300"]),
    # Samoa left out a whole day.
    ("Pacific/Apia", "0 12 * * *", "2011-12-29 11:00", ["2011-12-29 12:00-1000", "2011-12-31 00:00+1400",
                                                        "2011-12-31 12:00+1400"]),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "cron", "after", "expected"), DAYLIGHT)
def test_each_hour_of_a_day_on_which_clocks_change_runs_once(
    zone: str, cron: str, after: str, expected: list[str]
) -> None:
    assert times(cron, zone, after, len(expected)) == expected


CALENDAR = [
    ("0 0 29 2 *", "2026-01-01", ["2028-02-29", "2032-02-29"]),
    ("0 0 29 2 *", "2096-03-01", ["2104-02-29", "2108-02-29"]),  # 2100 is no leap year
    ("0 4 31 * *", "2026-01-01", ["2026-01-31", "2026-03-31", "2026-05-31", "2026-07-31", "2026-08-31"]),
    ("0 0 30 * *", "2026-02-01", ["2026-03-30", "2026-04-30"]),
    ("0 0 13 * FRI", "2026-01-01", ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),  # either of them
    ("0 0 */10 * MON", "2026-01-01", ["2026-05-11", "2026-06-01"]),  # both, when one of them begins with a star
    ("0 0 * * 7", "2026-01-01", ["2026-01-04", "2026-01-11"]),
    ("0 0 * * SUN", "2026-01-01", ["2026-01-04", "2026-01-11"]),
    ("0 0 * * fri-sun", "2026-01-01", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
    ("0 0 ? jan-MAR/2 Mon", "2026-01-20", ["2026-01-26", "2026-03-02"]),
    ("0 0 1,15 * *", "2026-01-10", ["2026-01-15", "2026-02-01"]),
    ("0 0 L * *", "2028-02-01", ["2028-02-29", "2028-03-31"]),
    ("0 0 LW * *", "2026-01-01", ["2026-01-30", "2026-02-27"]),
    ("0 0 * * FRIL", "2026-01-01", ["2026-01-30", "2026-02-27"]),
    ("0 0 * * MON#2", "2026-01-01", ["2026-01-12", "2026-02-09"]),
    ("0 0 * 2 MON#5", "2026-01-01", ["2044-02-29", "2072-02-29", "2112-02-29"]),
    ("0 0 30 2 SUN", "2026-02-10", ["2026-02-15", "2026-02-22"]),  # the day that never comes leaves the weekday
]  # fmt: skip


@pytest.mark.parametrize(("cron", "after", "expected"), CALENDAR)
def test_days_of_the_calendar(cron: str, after: str, expected: list[str]) -> None:
    found = times(cron, "UTC", f"{after} 00:00", len(expected))
    assert [day[:10] for day in found] == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("5/20 * * * *", ["00:05", "00:25", "00:45", "01:05"]),
        ("10-12,50 3 * * *", ["03:10", "03:11", "03:12", "03:50"]),
        ("0 9-17/4 * * *", ["09:00", "13:00", "17:00"]),
    ],
)
def test_steps_lists_and_ranges(cron: str, expected: list[str]) -> None:
    assert [at[11:16] for at in times(cron, "UTC", "2026-05-05 00:00", len(expected))] == expected


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("", "The cron expression is empty"),
        ("   ", "The cron expression is empty"),
        ("0 4 * *", "A cron expression has five fields, but this one has 4 fields"),
        ("daily", "A cron expression has five fields, but this one has 1 field"),
        ("0 0 4 * * *", "A cron expression has five fields, but this one has 6 fields"),
        ("@daily", "@daily is not a supported cron expression"),
        ("60 4 * * *", "minute: 60 is not between 0 and 59"),
        ("0 25 * * *", "hour: 25 is not between 0 and 23"),
        ("0 4 0 * *", "day of month: 0 is not between 1 and 31"),
        ("0 4 * 13 *", "month: 13 is not between 1 and 12"),
        ("0 4 * * 8", "day of week: 8 is not between 0 and 7"),
        ("x 4 * * *", "minute: X is not a number"),
        ("0 ² * * *", "hour: ² is not a number"),
        ("0 4 * MON *", "month: MON is not a number or one of JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
        ("0 4 * * JAN", "day of week: JAN is not a number or one of SUN MON TUE WED THU FRI SAT"),
        ("*/0 * * * *", "minute: 0 after / in */0 is not a valid step such as 2"),
        ("0 */ * * *", "hour: nothing after / in */ is not a valid step such as 2"),
        ("-5 4 * * *", "minute: a value is missing"),
        ("1,,2 4 * * *", "minute: a value is missing next to a comma"),
        ("0 17-9 * * *", "hour: 17-9 is not in ascending order"),
        ("0 4 * * MON#6", "day of week: 6 after # in MON#6 is not between 1 and 5"),
        ("0 4 L/2 * *", "day of month: L is not a number"),
        ("0 0 30 2 *", "day of month: February has no day 30, so the schedule never runs"),
        ("0 0 31 4,jun *", "day of month: April and June have no day 31, so the schedule never runs"),
        ("9" * 5000 + " * * * *", "A cron expression can have at most 200 characters"),
    ],
)
def test_bad_cron_text_is_told_field_by_field(cron: str, message: str) -> None:
    with pytest.raises(InvalidRecurrence) as refused:
        parse_cron(cron)
    assert refused.value.message == message
    assert refused.value.field == "cron"


NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize("cron", ["0 0 */30 * MON#2", "0 0 */30 2 FRI#5"])  # no day is both
def test_a_time_that_never_comes_is_refused(cron: str) -> None:
    with pytest.raises(InvalidRecurrence, match="never runs"):
        RecurrenceTimes("UTC").check_recurrence(Recurrence(kind=RecurrenceKind.CUSTOM, cron=cron), NOW)


def test_presets_go_by_their_own_times_whatever_cron_text_lies_beside_them() -> None:
    timing = RecurrenceTimes("UTC")
    for kind, expected in {
        RecurrenceKind.DAILY: "2026-11-16T04:00",
        RecurrenceKind.WEEKLY: "2026-11-22T04:00",  # Sunday, though the form of the web page stores a Monday
        RecurrenceKind.MONTHLY: "2026-12-01T04:00",
    }.items():
        found = timing.find_next_time(Recurrence(kind=kind, cron="0 4 * * 1"), NOW)
        assert found is not None
        assert found.isoformat()[:16] == expected
        assert kind in CRON_PRESETS
    assert timing.find_next_time(Recurrence(kind=RecurrenceKind.INACTIVE, cron="nonsense"), NOW) is None


def test_the_zone_is_the_schedules_own_or_else_the_servers() -> None:
    timing = RecurrenceTimes("Asia/Taipei")
    daily = Recurrence(kind=RecurrenceKind.DAILY)
    assert timing.find_next_time(daily, NOW) == datetime(2026, 11, 15, 20, 0, tzinfo=UTC)
    berlin = Recurrence(kind=RecurrenceKind.DAILY, timezone="Europe/Berlin")
    assert timing.find_next_time(berlin, NOW) == datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
    with pytest.raises(InvalidRecurrence, match="Time zone 'Europe/Berln' not found") as refused:
        timing.find_next_time(Recurrence(kind=RecurrenceKind.DAILY, timezone="Europe/Berln"), NOW)
    assert refused.value.field == "timezone"


def test_nothing_is_due_after_the_end() -> None:
    timing, daily = RecurrenceTimes("UTC"), Recurrence(kind=RecurrenceKind.DAILY)
    last = datetime(2026, 11, 17, 4, 0, tzinfo=UTC)
    assert tuple(timing.iter_upcoming_times(daily, NOW, 5, until=last)) == (last - timedelta(days=1), last)
    assert timing.find_next_time(daily, last, until=last) is None


def test_a_preview_is_bounded() -> None:
    timing = RecurrenceTimes("UTC")
    every_minute = Recurrence(kind=RecurrenceKind.CUSTOM, cron="* * * * *")
    assert len(list(timing.iter_upcoming_times(every_minute, NOW, 100))) == 100
    for count in (0, 101):
        with pytest.raises(UserError, match="count must be between 1 and 100"):
            list(timing.iter_upcoming_times(every_minute, NOW, count))


def test_the_calendar_ends_in_the_year_9999() -> None:
    assert times("0 0 * * *", "UTC", "9999-12-30 12:00", 5) == ["9999-12-31 00:00+0000"]
    assert times("0 0 * * *", "Pacific/Kiritimati", "9999-12-31 12:00", 5) == []


def test_far_ahead_a_zones_last_rules_go_on() -> None:
    assert times("30 2 * * *", NEW_YORK, "2200-03-08 12:00", 1) == ["2200-03-09 03:00-0400"]


def test_why_hours_are_named_to_cronsim_without_a_zone() -> None:
    """Given one, it loses text such as */20 2: no run at all on a day that skips the hour, twice as many on one that
    repeats it. Ours are in the table above."""
    zone = ZoneInfo(NEW_YORK)
    skipped = next(CronSim("*/20 2 * * *", datetime(2026, 3, 7, 12, tzinfo=zone)))
    assert skipped.date().isoformat() == "2026-03-09"
    repeated = CronSim("*/30 1 * * *", datetime(2026, 11, 1, tzinfo=zone))
    assert [next(repeated).date().day for _ in range(4)] == [1, 1, 1, 1]


ZONES = st.sampled_from([NEW_YORK, BERLIN, LORD_HOWE, TAIPEI, "Africa/Cairo", "America/Sao_Paulo", "Pacific/Apia"])
CRONS = st.sampled_from(["30 2 * * *", "*/20 1-3 * * *", "0 0 * * *", "*/15 * * * *", "7 * 4 * *", "59 23 * * 6"])
MOMENTS = st.datetimes(datetime(2009, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))


@settings(max_examples=examples(300), deadline=None)
@given(ZONES, CRONS, MOMENTS)
def test_the_next_time_is_later_and_none_lies_between(name: str, cron: str, after: datetime) -> None:
    zone = ZoneInfo(name)
    found = find_next_cron_time(cron, zone, after)
    assert found is not None
    assert found > after
    assert find_next_cron_time(cron, zone, found - timedelta(seconds=1)) == found
    middle = after + (found - after) / 2
    assert find_next_cron_time(cron, zone, middle) == found


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet="0123456789*/-,LW#?MONJA ", max_size=40))
def test_cron_text_is_taken_or_refused_and_never_anything_else(text: str) -> None:
    with suppress(InvalidRecurrence):
        cron = parse_cron(text)
        assert parse_cron(cron) == cron
        find_next_cron_time(cron, ZoneInfo(BERLIN), NOW)
