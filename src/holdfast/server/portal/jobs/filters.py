"""Which jobs a list shows: all of it stands in the address, so that a list can be kept, sent and come back to."""

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

SPANS = {"1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
CUSTOM = "custom"  # from a day to a day
LIMITS = (50, 100, 200)
MAX_LENGTH = 200  # characters of a text, a user or a group
MAX_GROUPS = 100
PATH = "/jobs"
_STATES = {state.lower(): state for state in JobState}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    groups: tuple[str, ...] = ()
    mine: bool = False
    user: str = ""
    states: tuple[JobState, ...] = ()
    text: str = ""
    span: str = ""  # of SPANS, or CUSTOM; empty: any time
    first: date | None = None
    last: date | None = None  # with that day
    limit: int = LIMITS[0]
    cursor: str = ""

    @property
    def any(self) -> bool:
        """It leaves jobs out."""
        return bool(self.groups or self.mine or self.user or self.states or self.text or self.span)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """As they stand in the address: only what differs from a plain list."""
        yield from (("group", group) for group in self.groups)
        yield from (("state", state) for state in self.states)
        named: dict[str, Any] = {"mine": "on" if self.mine else "", "user": self.user, "text": self.text}
        named["since"] = self.span if self.span in SPANS else ""
        if self.span == CUSTOM:
            named |= {"from": self.first or "", "to": self.last or ""}
        named |= {"limit": self.limit if self.limit != LIMITS[0] else "", "cursor": self.cursor}
        yield from ((name, str(value)) for name, value in named.items() if value)

    @property
    def address(self) -> str:
        query = urlencode(list(self.pairs()))
        return f"{PATH}?{query}" if query else PATH

    def but(self, **changes: Any) -> str:
        """The address of the same list with something else; from its beginning, unless that says where."""
        return replace(self, **{"cursor": "", **changes}).address

    def job_filter(self, actor: str, now: datetime, zone: ZoneInfo) -> JobFilter:
        after = now - SPANS[self.span] if self.span in SPANS else _midnight(self.first, zone)
        return JobFilter(
            groups=self.groups or None,
            user=actor if self.mine else self.user or None,
            states=self.states or None,
            text=self.text or None,
            submitted_after=after,
            submitted_before=_midnight(self.last, zone, days=1),
        )


def _midnight(day: date | None, zone: ZoneInfo, days: int = 0) -> datetime | None:
    return datetime.combine(day + timedelta(days=days), time(), zone) if day else None


@dataclass(slots=True)
class Reading:
    """What an address asks for, and what nobody can make sense of."""

    visit: Visit
    asked: QueryParams
    problems: list[str] = field(default_factory=list)

    def filters(self) -> Filters:
        user = self._short("user")
        mine = bool(self.asked.get("mine")) or user == self.visit.who.name
        span, first, last = self._time()
        return Filters(
            groups=self._groups(),
            mine=mine,
            user="" if mine else user,
            states=self._states(),
            text=self._short("text"),
            span=span,
            first=first,
            last=last,
            limit=self._limit(),
            cursor=self._short("cursor"),
        )

    def _all(self, *names: str) -> list[str]:
        """Given several times, or with commas between them."""
        given = [part.strip() for name in names for text in self.asked.getlist(name) for part in text.split(",")]
        return list(dict.fromkeys(filter(None, given)))

    def _short(self, name: str) -> str:
        text = self.asked.get(name, "").strip()
        if len(text) > MAX_LENGTH:
            self.problems.append(
                self.visit.say("{name} is longer than {number} characters", name=name, number=MAX_LENGTH)
            )
        return text[:MAX_LENGTH]

    def _groups(self) -> tuple[str, ...]:
        groups = self._all("group")
        if len(groups) > MAX_GROUPS:
            self.problems.append(self.visit.say("A list shows at most {number} groups at once", number=MAX_GROUPS))
        return tuple(group[:MAX_LENGTH] for group in groups[:MAX_GROUPS])

    def _states(self) -> tuple[JobState, ...]:
        given = self._all("state", "status")[:MAX_LENGTH]
        for word in given:
            if word.lower() not in _STATES:
                self.problems.append(self.visit.say("There is no state {name}", name=word[:40]))
        return tuple(state for word, state in _STATES.items() if word in map(str.lower, given))

    def _time(self) -> tuple[str, date | None, date | None]:
        span = self.asked.get("since", "").strip()
        if span in SPANS:
            return span, None, None
        if span not in ("", CUSTOM):
            self.problems.append(self.visit.say("There is no span of time {name}", name=span[:40]))
        first, last = self._day("from"), self._day("to")
        if first and last and last < first:
            self.problems.append(self.visit.say("The last day is before the first"))
        return CUSTOM if first or last or span == CUSTOM else "", first, last

    def _day(self, name: str) -> date | None:
        text = self.asked.get(name, "").strip()
        if not text:
            return None
        try:
            day = date.fromisoformat(text)
        except ValueError:
            day = date.min
        if not 1970 <= day.year <= 9000:
            self.problems.append(self.visit.say("{name} is not a day such as 2026-03-01", name=text[:40]))
            return None
        return day

    def _limit(self) -> int:
        text = self.asked.get("limit", "").strip() or str(LIMITS[0])
        if text not in map(str, LIMITS):
            allowed = ", ".join(map(str, LIMITS))
            self.problems.append(self.visit.say("limit is one of {numbers}", numbers=allowed))
            return LIMITS[0]
        return int(text)


def read_filters(visit: Visit) -> tuple[Filters, list[str]]:
    reading = Reading(visit, visit.request.query_params)
    return reading.filters(), reading.problems


def need_sense(problems: list[str]) -> None:
    """Told above the list that is there already, which stays as it is."""
    if problems:
        raise UserError(problems[0])
