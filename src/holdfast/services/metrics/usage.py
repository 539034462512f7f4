"""Monthly usage reports as CSV: allocated resources and hours. Months start in the installation's time zone."""

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

from holdfast.core.access import Actor
from holdfast.core.errors import UserError
from holdfast.core.job import GIB
from holdfast.core.messages import msg
from holdfast.core.metrics.usage import TaskUsage, TimeSpan, UsageTotal, compute_usage_total
from holdfast.store.database import Store
from holdfast.store.jobs import usage as usage_rows

from ..permissions import require_admin

ADMINS_ONLY_MESSAGE = msg("Only admins can read usage reports")
COMPONENT = "job"  # the only component that uses resources
PAGE_SIZE = 2000  # tries per read
MAX_MONTHS = 1200
SUMMARY_COLUMNS = ("group", "user", "component", "tasks", "cpu_hours", "gpu_hours", "memory_gb_hours")
DETAIL_COLUMNS = (
    *("group", "user", "component", "job", "name", "task", "attempt", "try", "started_at", "finished_at"),
    *("cpu", "gpu", "memory_gb", "cpu_hours", "gpu_hours", "memory_gb_hours"),
)
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")

Month = tuple[int, int]


class UsageReports:
    def __init__(self, store: Store, zone: ZoneInfo, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._zone = zone
        self._clock = clock
        self._semaphore = asyncio.Semaphore(1)  # a report may occupy a database reader for seconds

    async def list_months(self, actor: Actor) -> list[Month]:
        """Return the months with usage, newest first."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        async with self._semaphore:
            return await self._store.read(_list_used_months, self._zone, self._clock())

    async def render_summary(self, actor: Actor, year: int, month: int) -> str:
        """Return a CSV with one row per group and user."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        span, now = self._parse_month(year, month), self._clock()
        async with self._semaphore:
            found = list(await self._store.read(usage_rows.compute_usage_totals, span, now))
            async for uses in self._iter_usage_pages(span, now, many_roles=True):
                found.extend(_sum_totals(compute_usage_total(use, span, now) for use in uses))
        return _format_csv([SUMMARY_COLUMNS, *map(_build_summary_row, _sum_totals(found))])

    async def check_month(self, actor: Actor, year: int, month: int) -> None:
        """Check everything that can be rejected before the first line."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        self._parse_month(year, month)

    async def render_details(self, actor: Actor, year: int, month: int) -> AsyncGenerator[str, None]:
        """Yield a CSV in pieces, with one row per try of a task."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        span, now = self._parse_month(year, month), self._clock()
        yield _format_csv([DETAIL_COLUMNS])
        async for uses in self._iter_usage_pages(span, now):
            yield _format_csv(_build_detail_row(use, span, now) for use in uses)

    async def _iter_usage_pages(
        self, span: TimeSpan, now: datetime, *, many_roles: bool = False
    ) -> AsyncGenerator[Sequence[TaskUsage], None]:
        after: tuple[Any, ...] | None = None
        while True:
            portion = await self._store.read(
                usage_rows.list_task_usage, span, now, after, PAGE_SIZE, many_roles=many_roles
            )
            yield portion.uses
            after = portion.next
            if after is None:
                return

    def _parse_month(self, year: int, month: int) -> TimeSpan:
        if not (1970 <= year <= 9998 and 1 <= month <= 12):
            raise UserError(
                msg("{year}-{month} is not a valid month", year=year, month=month),
                field="month",
                hint=msg("Use the format 2026/1."),
            )
        return build_month_span(self._zone, year, month)


def build_month_span(zone: ZoneInfo, year: int, month: int) -> TimeSpan:
    after = (year, month + 1) if month < 12 else (year + 1, 1)
    return TimeSpan(datetime(year, month, 1, tzinfo=zone), datetime(*after, 1, tzinfo=zone))


def _list_used_months(conn: Connection, zone: ZoneInfo, now: datetime) -> list[Month]:
    first = usage_rows.find_first_task_start(conn)
    if first is None:
        return []
    begin, end = _get_month_number(first.astimezone(zone)), _get_month_number(now.astimezone(zone))
    numbers = range(end, max(begin, end - MAX_MONTHS) - 1, -1)
    months = ((number // 12, number % 12 + 1) for number in numbers)
    return [month for month in months if usage_rows.has_usage(conn, build_month_span(zone, *month), now)]


def _get_month_number(at: datetime) -> int:
    return at.year * 12 + at.month - 1


def _sum_totals(totals: Iterable[UsageTotal]) -> list[UsageTotal]:
    def get_sort_key(total: UsageTotal) -> tuple[str, str]:
        return total.group, total.user

    return [reduce(UsageTotal.__add__, same) for _, same in groupby(sorted(totals, key=get_sort_key), get_sort_key)]


# -- CSV


def _build_summary_row(total: UsageTotal) -> list[Any]:
    hours = map(_format_number, (total.cpu_hours, total.gpu_hours, total.gb_hours))
    return [total.group, total.user, COMPONENT, total.tasks, *hours]


def _build_detail_row(use: TaskUsage, span: TimeSpan, now: datetime) -> list[Any]:
    total, wanted = compute_usage_total(use, span, now), use.resources
    names = (use.group, use.user, COMPONENT, use.job_id, use.job_name, use.task, use.attempt, use.number)
    times = (use.started_at.isoformat(), use.finished_at.isoformat() if use.finished_at else "")
    numbers = (wanted.cpu, wanted.gpu, wanted.memory / GIB, total.cpu_hours, total.gpu_hours, total.gb_hours)
    return [*names, *times, *map(_format_number, numbers)]


def _format_number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _format_csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_escape_formula(cell) for cell in row] for row in rows)
    return text.getvalue()


def _escape_formula(cell: Any) -> Any:
    """Escape text that a spreadsheet would run as a formula: users choose names freely."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_PREFIXES) else cell
