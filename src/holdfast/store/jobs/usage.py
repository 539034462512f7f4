"""Which tries of tasks ran in a span of time, one by one or summed up.

They are found by when they started: those of the span and of some weeks before it. The few that began earlier still are
either longer than those weeks, and have an index of their own, or belong to a job that is not over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from holdfast.core.job import GIB, Resources
from holdfast.core.metrics.usage import HOUR, Span, TaskUse, Total
from holdfast.core.states import FINAL, JobState

from ..rows import duration_micros, instant, maybe_instant, micros
from ..tables import LONG_TRY

_BEFORE = timedelta(microseconds=LONG_TRY)

_FROM = "task_attempts t JOIN jobs j ON j.seq = t.job_seq"
_RECENT = "t.started_at >= :early AND t.started_at < :end AND coalesce(t.finished_at, j.finished_at, :now) > :start"
_LONG = f"t.finished_at - t.started_at > {LONG_TRY} AND t.started_at < :early AND t.finished_at > :start"
_OPEN = "j.state IN :open AND t.started_at < :early AND t.finished_at IS NULL"
_BRANCHES = (_RECENT, _LONG, _OPEN)

_COLUMNS = (
    "t.job_seq, t.attempt, t.role, t.task_index, t.number, t.started_at,"
    " coalesce(t.finished_at, j.finished_at) AS finished_at,"
    " j.id, j.name, j.user_name, j.group_name, j.role_count, j.task_count, j.cpu, j.memory, j.gpu"
)
_KEY = "t.started_at, t.job_seq, t.attempt, t.role, t.task_index, t.number"
_AFTER = "(:at, :job_seq, :attempt, :role, :task_index, :number)"


@dataclass(frozen=True, slots=True)
class Portion:
    """Some of a span's tries, and how to go on; None: these were the last."""

    uses: tuple[TaskUse, ...]
    next: tuple[Any, ...] | None


def first_start(conn: Connection) -> datetime | None:
    """When anything ever started."""
    return maybe_instant(conn.scalar(text("SELECT min(started_at) FROM task_attempts WHERE started_at IS NOT NULL")))


def any_use(conn: Connection, span: Span, now: datetime) -> bool:
    """Whether anything ran within the span."""
    quick = text("SELECT 1 FROM task_attempts WHERE started_at >= :start AND started_at < :end LIMIT 1")
    values = _values(span, now)
    if conn.scalar(quick, {key: values[key] for key in ("start", "end")}):
        return True
    return any(conn.scalar(_select("1", branch, "LIMIT 1"), values) for branch in _BRANCHES)


def totals(conn: Connection, span: Span, now: datetime) -> list[Total]:
    """Summed up by the database. Only jobs of one role: what each task of the others had is in their specs."""
    least, most = ("min", "max") if conn.dialect.name == "sqlite" else ("least", "greatest")
    lasted = (
        f"CAST({most}(0, {least}(coalesce(t.finished_at, j.finished_at, :now), :until)"
        f" - {most}(t.started_at, :start)) AS DOUBLE PRECISION)"
    )
    sums = ", ".join(f"sum({lasted} * j.{what} / j.task_count) AS {what}" for what in ("cpu", "gpu", "memory"))
    columns = f"j.group_name, j.user_name, count(*) AS tasks, {sums}"
    found: list[Total] = []
    for branch in _BRANCHES:
        rest = "AND j.role_count = 1 GROUP BY j.group_name, j.user_name"
        rows = conn.execute(_select(columns, branch, rest), _values(span, now))
        found.extend(map(_total, rows))
    return found


def uses(
    conn: Connection, span: Span, now: datetime, after: tuple[Any, ...] | None, limit: int, *, many_roles: bool = False
) -> Portion:
    """Tries that ran within the span, in portions; `many_roles`: only those of jobs with several."""
    only = "AND j.role_count > 1 " if many_roles else ""
    rows: list[Row[Any]] = []
    if after is None:
        for branch in (_LONG, _OPEN):
            rows.extend(conn.execute(_select(_COLUMNS, branch, f"{only}ORDER BY {_KEY}"), _values(span, now)))
    recent = _recent(conn, span, now, after, limit, only)
    more = tuple(recent[-1][5:6]) + tuple(recent[-1][:5]) if len(recent) == limit else None
    roles = _Roles(conn)
    return Portion(tuple(_use(row, roles) for row in [*rows, *recent]), more)


def _recent(
    conn: Connection, span: Span, now: datetime, after: tuple[Any, ...] | None, limit: int, only: str
) -> Sequence[Row[Any]]:
    values = {**_values(span, now), "limit": limit}
    behind = ""
    if after is not None:
        behind = f"AND ({_KEY}) > {_AFTER} "
        names = ("at", "job_seq", "attempt", "role", "task_index", "number")
        values |= dict(zip(names, after, strict=True)) | {"early": after[0]}
    return conn.execute(_select(_COLUMNS, _RECENT, f"{only}{behind}ORDER BY {_KEY} LIMIT :limit"), values).all()


def _select(columns: str, branch: str, rest: str) -> Any:
    sql = f"SELECT {columns} FROM {_FROM} WHERE {branch} {rest}"  # noqa: S608
    return text(sql).bindparams(bindparam("open", expanding=True)) if branch is _OPEN else text(sql)


def _values(span: Span, now: datetime) -> dict[str, Any]:
    return {
        "start": micros(span.start),
        "end": micros(span.end),
        "early": micros(span.start - _BEFORE),
        "now": micros(now),
        "until": micros(min(span.end, now)),
        "open": [state.value for state in JobState if state not in FINAL],
    }


def _total(row: Row[Any]) -> Total:
    hour = duration_micros(HOUR)
    return Total(
        group=row.group_name,
        user=row.user_name,
        tasks=row.tasks,
        cpu_hours=row.cpu / hour,
        gpu_hours=row.gpu / hour,
        gb_hours=row.memory / hour / GIB,
    )


class _Roles:
    """What a task of each role is given; of jobs with several it is read from what was submitted, once each."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._known: dict[int, dict[str, Resources]] = {}

    def resources(self, row: Row[Any]) -> Resources:
        if row.role_count == 1:
            count = row.task_count
            return Resources(cpu=row.cpu / count, memory=row.memory // count, gpu=row.gpu // count)
        if row.job_seq not in self._known:
            spec = self._conn.scalar(_SPEC, {"seq": row.job_seq})
            self._known[row.job_seq] = {
                role["name"]: Resources(**role["resources"]) for role in json.loads(spec or "{}").get("roles", ())
            }
        return self._known[row.job_seq].get(row.role, Resources(cpu=0, memory=0))


_SPEC = text("SELECT spec_json FROM job_specs WHERE job_seq = :seq")


def _use(row: Row[Any], roles: _Roles) -> TaskUse:
    return TaskUse(
        job_id=row.id,
        job_name=row.name,
        user=row.user_name,
        group=row.group_name,
        task=f"{row.role}-{row.task_index}",
        attempt=row.attempt,
        number=row.number,
        started_at=instant(row.started_at),
        finished_at=maybe_instant(row.finished_at),
        resources=roles.resources(row),
    )
