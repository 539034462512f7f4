"""Usage reports: what was given to whom, month by month."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from starlette.responses import Response

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from ...numbers import whole_number
from ...routes import page
from ...visit import Visit

HOME = "/admin/usage"
REST = "/api/v1/usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    user: str
    tasks: int
    cpu_hours: float
    gpu_hours: float
    memory_gb_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    group: str
    rows: tuple[UsageRow, ...]
    total: UsageRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    year: int
    month: int

    @property
    def text(self) -> str:
        return f"{self.year}-{self.month:02d}"

    @property
    def path(self) -> str:
        return f"{self.year}/{self.month}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    months: tuple[Month, ...]
    shown: Month | None
    groups: tuple[GroupRows, ...] = ()


async def show_newest(visit: Visit) -> Response:
    months = await _months(visit)
    return await _show(visit, months, max(months, key=lambda month: (month.year, month.month)) if months else None)


async def show_month(visit: Visit) -> Response:
    year, month = (whole_number(visit.request.path_params[name], 9999) for name in ("year", "month"))
    if year is None or month is None:
        raise NotFound(msg("There is nothing at this address"))
    return await _show(visit, await _months(visit), Month(year=year, month=month))


async def _show(visit: Visit, months: tuple[Month, ...], shown: Month | None) -> Response:
    summary = await visit.services.usage.summary(visit.who, shown.year, shown.month) if shown else ""
    found = UsagePage(months=months, shown=shown, groups=tuple(_groups(summary)))
    return await visit.show("admin/usage.html", found)


async def _months(visit: Visit) -> tuple[Month, ...]:
    return tuple(Month(year=year, month=month) for year, month in await visit.services.usage.months(visit.who))


def _groups(summary: str) -> list[GroupRows]:
    lines = sorted(csv.DictReader(io.StringIO(summary)), key=lambda line: (line["group"], line["user"]))
    found = []
    for group, same in groupby(lines, lambda line: line["group"]):
        rows = tuple(_row(line) for line in same)
        found.append(GroupRows(group=group, rows=rows, total=_sum(rows)))
    return found


def _row(line: dict[str, str]) -> UsageRow:
    hours = {key: float(line[key]) for key in ("cpu_hours", "gpu_hours", "memory_gb_hours")}
    return UsageRow(user=line["user"], tasks=int(line["tasks"]), **hours)


def _sum(rows: Sequence[UsageRow]) -> UsageRow:
    return UsageRow(
        user="",
        tasks=sum(row.tasks for row in rows),
        cpu_hours=sum(row.cpu_hours for row in rows),
        gpu_hours=sum(row.gpu_hours for row in rows),
        memory_gb_hours=sum(row.memory_gb_hours for row in rows),
    )


routes = [page(HOME, show_newest, admin=True), page(HOME + "/{year}/{month}", show_month, admin=True)]
