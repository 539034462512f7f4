"""Monthly usage reports by group and user."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from starlette.responses import Response

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from ...numbers import parse_integer
from ...routes import build_page_route
from ...visit import Visit

USAGE_PATH = "/admin/usage"
HOUR_FIELDS = ("cpu_hours", "gpu_hours", "memory_gb_hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    user: str
    tasks: int
    cpu_hours: float
    gpu_hours: float
    memory_gb_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsageRows:
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
    groups: tuple[GroupUsageRows, ...] = ()


async def show_newest_month(visit: Visit) -> Response:
    months = await _list_months(visit)
    return await _show_usage(visit, months, max(months, key=lambda month: (month.year, month.month), default=None))


async def show_month(visit: Visit) -> Response:
    year, month = (parse_integer(visit.path_params[name], 9999) for name in ("year", "month"))
    if year is None or month is None:
        raise NotFound(msg("Not found: no resource has this URL"))
    return await _show_usage(visit, await _list_months(visit), Month(year=year, month=month))


async def _show_usage(visit: Visit, months: tuple[Month, ...], shown: Month | None) -> Response:
    summary = await visit.services.usage.render_summary(visit.current_actor, shown.year, shown.month) if shown else ""
    found = UsagePage(months=months, shown=shown, groups=tuple(_parse_group_rows(summary)))
    return await visit.render_response("admin/usage.html", found)


async def _list_months(visit: Visit) -> tuple[Month, ...]:
    months = await visit.services.usage.list_months(visit.current_actor)
    return tuple(Month(year=year, month=month) for year, month in months)


def _parse_group_rows(summary: str) -> list[GroupUsageRows]:
    lines = sorted(csv.DictReader(io.StringIO(summary)), key=lambda line: (line["group"], line["user"]))
    found = []
    for group, group_lines in groupby(lines, lambda line: line["group"]):
        rows = tuple(_parse_usage_row(line) for line in group_lines)
        found.append(GroupUsageRows(group=group, rows=rows, total=_sum_usage(rows)))
    return found


def _parse_usage_row(line: dict[str, str]) -> UsageRow:
    return UsageRow(user=line["user"], tasks=int(line["tasks"]), **{key: float(line[key]) for key in HOUR_FIELDS})


def _sum_usage(rows: Sequence[UsageRow]) -> UsageRow:
    hours = {key: sum(getattr(row, key) for row in rows) for key in HOUR_FIELDS}
    return UsageRow(user="", tasks=sum(row.tasks for row in rows), **hours)


routes = [
    build_page_route(USAGE_PATH, show_newest_month, admin=True),
    build_page_route(USAGE_PATH + "/{year}/{month}", show_month, admin=True),
]
