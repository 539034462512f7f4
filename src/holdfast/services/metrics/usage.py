"""Usage reports by month: what tasks were given, for how long, as CSV. Months begin in the place's time zone."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from datetime import datetime
from functools import reduce
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import Forbidden, UserError
from holdfast.core.job import GIB
from holdfast.core.messages import msg
from holdfast.core.metrics.usage import Span, TaskUse, Total, total_of
from holdfast.store.database import Store
from holdfast.store.jobs import usage as usage_rows

COMPONENT = "job"  # the only thing that is given anything here
PORTION = 2000  # tries read at one time
MAX_MONTHS = 1200
SUMMARY = ("group", "user", "component", "tasks", "cpu_hours", "gpu_hours", "memory_gb_hours")
DETAILS = (
    *("group", "user", "component", "job", "name", "task", "attempt", "try", "started_at", "finished_at"),
    *("cpu", "gpu", "memory_gb", "cpu_hours", "gpu_hours", "memory_gb_hours"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

Month = tuple[int, int]


class Usage:
    def __init__(self, store: Store, zone: ZoneInfo, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._zone = zone
        self._clock = clock
        self._turn = asyncio.Semaphore(1)  # a report may keep a reader of the store busy for seconds

    async def months(self, actor: Actor) -> list[Month]:
        """In which anything ran, newest first."""
        _need_admin(actor)
        async with self._turn:
            return await self._store.read(_months, self._zone, self._clock())

    async def summary(self, actor: Actor, year: int, month: int) -> str:
        """CSV: a line for each user in each group."""
        _need_admin(actor)
        span, now = self._span(year, month), self._clock()
        async with self._turn:
            found = list(await self._store.read(usage_rows.totals, span, now))
            async for uses in self._portions(span, now, many_roles=True):
                found.extend(_summed(total_of(use, span, now) for use in uses))
        return _lines([SUMMARY, *map(_summary_row, _summed(found))])

    async def check(self, actor: Actor, year: int, month: int) -> None:
        """Everything that can be refused before the first line."""
        _need_admin(actor)
        self._span(year, month)

    async def details(self, actor: Actor, year: int, month: int) -> AsyncGenerator[str, None]:
        """CSV in pieces: a line for each try of each task."""
        _need_admin(actor)
        span, now = self._span(year, month), self._clock()
        yield _lines([DETAILS])
        async for uses in self._portions(span, now):
            yield _lines(_detail_row(use, span, now) for use in uses)

    async def _portions(
        self, span: Span, now: datetime, *, many_roles: bool = False
    ) -> AsyncGenerator[Sequence[TaskUse], None]:
        after: tuple[Any, ...] | None = None
        while True:
            portion = await self._store.read(usage_rows.uses, span, now, after, PORTION, many_roles=many_roles)
            yield portion.uses
            after = portion.next
            if after is None:
                return

    def _span(self, year: int, month: int) -> Span:
        if not (1970 <= year <= 9998 and 1 <= month <= 12):
            raise UserError(
                msg("There is no month {year}-{month}", year=year, month=month),
                field="month",
                hint=msg("Write it as 2026/1."),
            )
        return span_of(self._zone, year, month)


def span_of(zone: ZoneInfo, year: int, month: int) -> Span:
    after = (year, month + 1) if month < 12 else (year + 1, 1)
    return Span(datetime(year, month, 1, tzinfo=zone), datetime(*after, 1, tzinfo=zone))


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins see usage reports"))


def _months(conn: Connection, zone: ZoneInfo, now: datetime) -> list[Month]:
    first = usage_rows.first_start(conn)
    if first is None:
        return []
    begin, end = _number(first.astimezone(zone)), _number(now.astimezone(zone))
    numbers = range(end, max(begin, end - MAX_MONTHS) - 1, -1)
    months = ((number // 12, number % 12 + 1) for number in numbers)
    return [month for month in months if usage_rows.any_use(conn, span_of(zone, *month), now)]


def _number(at: datetime) -> int:
    return at.year * 12 + at.month - 1


def _summed(totals: Iterable[Total]) -> list[Total]:
    def key(total: Total) -> tuple[str, str]:
        return total.group, total.user

    return [reduce(Total.__add__, same) for _, same in groupby(sorted(totals, key=key), key)]


# -- CSV


def _summary_row(total: Total) -> list[Any]:
    hours = map(_number_text, (total.cpu_hours, total.gpu_hours, total.gb_hours))
    return [total.group, total.user, COMPONENT, total.tasks, *hours]


def _detail_row(use: TaskUse, span: Span, now: datetime) -> list[Any]:
    total, wanted = total_of(use, span, now), use.resources
    names = (use.group, use.user, COMPONENT, use.job_id, use.job_name, use.task, use.attempt, use.number)
    times = (use.started_at.isoformat(), use.finished_at.isoformat() if use.finished_at else "")
    numbers = (wanted.cpu, wanted.gpu, wanted.memory / GIB, total.cpu_hours, total.gpu_hours, total.gb_hours)
    return [*names, *times, *map(_number_text, numbers)]


def _number_text(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _lines(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """Spreadsheets take a text that begins like this for a formula, and people choose names freely."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
