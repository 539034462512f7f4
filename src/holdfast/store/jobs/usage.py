"""Tries of tasks that ran in a time range, as a list or as totals.

They are found by start time: within the range and some weeks before it. The few that started earlier either ran longer
than those weeks, and have their own index, or belong to a job that has not ended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from holdfast.core.job import GIB, Resources
from holdfast.core.metrics.usage import HOUR, TaskUsage, TimeSpan, UsageTotal
from holdfast.core.states import FINAL_STATES, JobState

from ..mapping import record_from_row
from ..rows import duration_to_micros, from_optional_micros, to_micros
from ..tables import LONG_TRY_MICROS

_LOOKBACK = timedelta(microseconds=LONG_TRY_MICROS)

_FROM_CLAUSE = "task_attempts t JOIN jobs j ON j.seq = t.job_seq"
_RECENT_TRIES = (
    "t.started_at >= :early AND t.started_at < :end AND coalesce(t.finished_at, j.finished_at, :now) > :start"
)
_LONG_TRIES = f"t.finished_at - t.started_at > {LONG_TRY_MICROS} AND t.started_at < :early AND t.finished_at > :start"
_OPEN_TRIES = "j.state IN :open AND t.started_at < :early AND t.finished_at IS NULL"
_TRY_CONDITIONS = (_RECENT_TRIES, _LONG_TRIES, _OPEN_TRIES)

_USAGE_COLUMNS = (
    "t.job_seq, t.attempt, t.role, t.task_index, t.number, t.started_at,"
    " coalesce(t.finished_at, j.finished_at) AS finished_at,"
    " j.id, j.name, j.user_name, j.group_name, j.role_count, j.task_count, j.cpu, j.memory, j.gpu"
)
_SORT_KEY = "t.started_at, t.job_seq, t.attempt, t.role, t.task_index, t.number"
_SORT_KEY_VALUES = "(:at, :job_seq, :attempt, :role, :task_index, :number)"


@dataclass(frozen=True, slots=True)
class TaskUsagePage:
    """A page of tries, and the key of the next page; None: this is the last page."""

    uses: tuple[TaskUsage, ...]
    next: tuple[Any, ...] | None


def find_first_task_start(conn: Connection) -> datetime | None:
    return from_optional_micros(
        conn.scalar(text("SELECT min(started_at) FROM task_attempts WHERE started_at IS NOT NULL"))
    )


def has_usage(conn: Connection, span: TimeSpan, now: datetime) -> bool:
    """Whether a task ran within the time range."""
    quick = text("SELECT 1 FROM task_attempts WHERE started_at >= :start AND started_at < :end LIMIT 1")
    values = _build_query_values(span, now)
    if conn.scalar(quick, {key: values[key] for key in ("start", "end")}):
        return True
    return any(conn.scalar(_build_usage_query("1", branch, "LIMIT 1"), values) for branch in _TRY_CONDITIONS)


def compute_usage_totals(conn: Connection, span: TimeSpan, now: datetime) -> list[UsageTotal]:
    """Sum up usage in the database, of jobs with one role only: requests of other roles are in the specs."""
    least, most = ("min", "max") if conn.dialect.name == "sqlite" else ("least", "greatest")
    lasted = (
        f"CAST({most}(0, {least}(coalesce(t.finished_at, j.finished_at, :now), :until)"
        f" - {most}(t.started_at, :start)) AS DOUBLE PRECISION)"
    )
    sums = ", ".join(f"sum({lasted} * j.{what} / j.task_count) AS {what}" for what in ("cpu", "gpu", "memory"))
    columns = f"j.group_name, j.user_name, count(*) AS tasks, {sums}"
    found: list[UsageTotal] = []
    for branch in _TRY_CONDITIONS:
        rest = "AND j.role_count = 1 GROUP BY j.group_name, j.user_name"
        rows = conn.execute(_build_usage_query(columns, branch, rest), _build_query_values(span, now))
        found.extend(map(_total_from_row, rows))
    return found


def list_task_usage(
    conn: Connection,
    span: TimeSpan,
    now: datetime,
    after: tuple[Any, ...] | None,
    limit: int,
    *,
    many_roles: bool = False,
) -> TaskUsagePage:
    """Return a page of tries that ran within the range; `many_roles`: only of jobs with several roles."""
    only = "AND j.role_count > 1 " if many_roles else ""
    rows: list[Row[Any]] = []
    if after is None:
        for branch in (_LONG_TRIES, _OPEN_TRIES):
            rows.extend(
                conn.execute(
                    _build_usage_query(_USAGE_COLUMNS, branch, f"{only}ORDER BY {_SORT_KEY}"),
                    _build_query_values(span, now),
                )
            )
    recent = _select_recent_tries(conn, span, now, after, limit, only)
    more = tuple(recent[-1][5:6]) + tuple(recent[-1][:5]) if len(recent) == limit else None
    roles = _RoleResources(conn)
    return TaskUsagePage(tuple(_task_usage_from_row(row, roles) for row in [*rows, *recent]), more)


def _select_recent_tries(
    conn: Connection, span: TimeSpan, now: datetime, after: tuple[Any, ...] | None, limit: int, only: str
) -> Sequence[Row[Any]]:
    values = {**_build_query_values(span, now), "limit": limit}
    behind = ""
    if after is not None:
        behind = f"AND ({_SORT_KEY}) > {_SORT_KEY_VALUES} "
        names = ("at", "job_seq", "attempt", "role", "task_index", "number")
        values |= dict(zip(names, after, strict=True)) | {"early": after[0]}
    return conn.execute(
        _build_usage_query(_USAGE_COLUMNS, _RECENT_TRIES, f"{only}{behind}ORDER BY {_SORT_KEY} LIMIT :limit"), values
    ).all()


def _build_usage_query(columns: str, branch: str, rest: str) -> Any:
    sql = f"SELECT {columns} FROM {_FROM_CLAUSE} WHERE {branch} {rest}"  # noqa: S608
    return text(sql).bindparams(bindparam("open", expanding=True)) if branch is _OPEN_TRIES else text(sql)


def _build_query_values(span: TimeSpan, now: datetime) -> dict[str, Any]:
    return {
        "start": to_micros(span.start),
        "end": to_micros(span.end),
        "early": to_micros(span.start - _LOOKBACK),
        "now": to_micros(now),
        "until": to_micros(min(span.end, now)),
        "open": [state.value for state in JobState if state not in FINAL_STATES],
    }


def _total_from_row(row: Row[Any]) -> UsageTotal:
    hour = duration_to_micros(HOUR)
    return UsageTotal(
        group=row.group_name,
        user=row.user_name,
        tasks=row.tasks,
        cpu_hours=row.cpu / hour,
        gpu_hours=row.gpu / hour,
        gb_hours=row.memory / hour / GIB,
    )


class _RoleResources:
    """Resources of a task of each role; for jobs with several roles, read once from the spec."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._known: dict[int, dict[str, Resources]] = {}

    def get_resources(self, row: Row[Any]) -> Resources:
        if row.role_count == 1:
            count = row.task_count
            return Resources(cpu=row.cpu / count, memory=row.memory // count, gpu=row.gpu // count)
        if row.job_seq not in self._known:
            spec = self._conn.scalar(_SELECT_SPEC, {"seq": row.job_seq})
            self._known[row.job_seq] = {
                role["name"]: Resources(**role["resources"]) for role in json.loads(spec or "{}").get("roles", ())
            }
        return self._known[row.job_seq].get(row.role, Resources(cpu=0, memory=0))


_SELECT_SPEC = text("SELECT spec_json FROM job_specs WHERE job_seq = :seq")


def _task_usage_from_row(row: Row[Any], roles: _RoleResources) -> TaskUsage:
    return record_from_row(
        TaskUsage,
        row,
        job_id=row.id,
        job_name=row.name,
        task=f"{row.role}-{row.task_index}",
        resources=roles.get_resources(row),
    )
