"""Filters of the job list. All of them are in the URL, so that a list can be bookmarked and shared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.datastructures import QueryParams

from holdfast.core.errors import UserError
from holdfast.core.records import JobFilter
from holdfast.core.states import JobState

from ..visit import Visit

TIME_RANGES = {"1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
CUSTOM_RANGE = "custom"  # from one day to another
PAGE_SIZES = (50, 100, 200)
MAX_FILTER_LENGTH = 200  # characters of a text, a user or a group
MAX_FILTER_GROUPS = 100
JOBS_PATH = "/jobs"
_STATES_BY_NAME = {state.lower(): state for state in JobState}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListFilters:
    groups: tuple[str, ...] = ()
    mine: bool = False
    user: str = ""
    states: tuple[JobState, ...] = ()
    text: str = ""
    span: str = ""  # of TIME_RANGES, or CUSTOM_RANGE; empty: any time
    first: date | None = None
    last: date | None = None  # including that day
    limit: int = PAGE_SIZES[0]
    cursor: str = ""

    @property
    def any(self) -> bool:
        return bool(self.groups or self.mine or self.user or self.states or self.text or self.span)

    def iter_query_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the query parameters, without defaults."""
        yield from (("group", group) for group in self.groups)
        yield from (("state", state) for state in self.states)
        named: dict[str, Any] = {"mine": "on" if self.mine else "", "user": self.user, "text": self.text}
        named["since"] = self.span if self.span in TIME_RANGES else ""
        if self.span == CUSTOM_RANGE:
            named |= {"from": self.first or "", "to": self.last or ""}
        named |= {"limit": self.limit if self.limit != PAGE_SIZES[0] else "", "cursor": self.cursor}
        yield from ((name, str(value)) for name, value in named.items() if value)

    @property
    def address(self) -> str:
        query = urlencode(list(self.iter_query_pairs()))
        return f"{JOBS_PATH}?{query}" if query else JOBS_PATH

    def build_address(self, **changes: Any) -> str:
        """Return the URL of the list with changed filters, from the first page unless a cursor is given."""
        return replace(self, **{"cursor": "", **changes}).address

    def to_job_filter(self, actor: str, now: datetime, zone: ZoneInfo) -> JobFilter:
        after = now - TIME_RANGES[self.span] if self.span in TIME_RANGES else _compute_midnight(self.first, zone)
        return JobFilter(
            groups=self.groups or None,
            user=actor if self.mine else self.user or None,
            states=self.states or None,
            text=self.text or None,
            submitted_after=after,
            submitted_before=_compute_midnight(self.last, zone, days=1),
        )


def _compute_midnight(day: date | None, zone: ZoneInfo, days: int = 0) -> datetime | None:
    return datetime.combine(day + timedelta(days=days), time(), zone) if day else None


@dataclass(slots=True)
class FilterParser:
    """Parses the filters of a URL and collects problems."""

    visit: Visit
    query: QueryParams
    problems: list[str] = field(default_factory=list)

    def parse_filters(self) -> JobListFilters:
        user = self._parse_text("user")
        mine = bool(self.query.get("mine")) or user == self.visit.current_actor.name
        span, first, last = self._parse_time_range()
        return JobListFilters(
            groups=self._parse_groups(),
            mine=mine,
            user="" if mine else user,
            states=self._parse_states(),
            text=self._parse_text("text"),
            span=span,
            first=first,
            last=last,
            limit=self._parse_limit(),
            cursor=self._parse_text("cursor"),
        )

    def _list_values(self, *names: str) -> list[str]:
        """Return values that are repeated or separated by commas."""
        given = [part.strip() for name in names for text in self.query.getlist(name) for part in text.split(",")]
        return list(dict.fromkeys(filter(None, given)))

    def _parse_text(self, name: str) -> str:
        text = self.query.get(name, "").strip()
        if len(text) > MAX_FILTER_LENGTH:
            self.problems.append(
                self.visit.translate_text(
                    "{name} is longer than {number} characters", name=name, number=MAX_FILTER_LENGTH
                )
            )
        return text[:MAX_FILTER_LENGTH]

    def _parse_groups(self) -> tuple[str, ...]:
        groups = self._list_values("group")
        if len(groups) > MAX_FILTER_GROUPS:
            self.problems.append(
                self.visit.translate_text("At most {number} groups can be selected", number=MAX_FILTER_GROUPS)
            )
        return tuple(group[:MAX_FILTER_LENGTH] for group in groups[:MAX_FILTER_GROUPS])

    def _parse_states(self) -> tuple[JobState, ...]:
        given = self._list_values("state", "status")[:MAX_FILTER_LENGTH]
        for word in given:
            if word.lower() not in _STATES_BY_NAME:
                self.problems.append(self.visit.translate_text("Unknown state {name}", name=word[:40]))
        return tuple(state for word, state in _STATES_BY_NAME.items() if word in map(str.lower, given))

    def _parse_time_range(self) -> tuple[str, date | None, date | None]:
        span = self.query.get("since", "").strip()
        if span in TIME_RANGES:
            return span, None, None
        if span not in ("", CUSTOM_RANGE):
            self.problems.append(self.visit.translate_text("Time range {name} is not supported", name=span[:40]))
        first, last = self._parse_day("from"), self._parse_day("to")
        if first and last and last < first:
            self.problems.append(self.visit.translate_text("The end date is before the start date"))
        return CUSTOM_RANGE if first or last or span == CUSTOM_RANGE else "", first, last

    def _parse_day(self, name: str) -> date | None:
        text = self.query.get(name, "").strip()
        if not text:
            return None
        try:
            day = date.fromisoformat(text)
        except ValueError:
            day = date.min
        if not 1970 <= day.year <= 9000:
            self.problems.append(self.visit.translate_text("{name} is not a date such as 2026-03-01", name=text[:40]))
            return None
        return day

    def _parse_limit(self) -> int:
        text = self.query.get("limit", "").strip() or str(PAGE_SIZES[0])
        if text not in map(str, PAGE_SIZES):
            allowed = ", ".join(map(str, PAGE_SIZES))
            self.problems.append(self.visit.translate_text("limit must be one of {numbers}", numbers=allowed))
            return PAGE_SIZES[0]
        return int(text)


def parse_job_filters(visit: Visit) -> tuple[JobListFilters, list[str]]:
    reading = FilterParser(visit, visit.query)
    return reading.parse_filters(), reading.problems


def check_filter_problems(problems: list[str]) -> None:
    """Raise the first problem, which is shown above the current list."""
    if problems:
        raise UserError(problems[0])
