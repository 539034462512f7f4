"""Schedules and the history of their runs.

`advance_schedules` submits the job, records the run and sets the next due time in one write, which happens only if the
schedule is unchanged since it was read. So no run is lost or repeated when a server dies.
"""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, or_, select, text, update

from holdfast.core.codec import job_from_json, job_to_json
from holdfast.core.errors import Conflict, UserError
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.schedule import (
    Recurrence,
    RunResult,
    Schedule,
    ScheduleOrder,
    SchedulePage,
    ScheduleQuery,
    ScheduleRun,
)
from holdfast.core.states import JobState

from .connections import get_vault
from .jobs.records import InsertedJob, NewJob, insert_job, insert_jobs
from .mapping import record_from_row, record_to_row
from .notifications.event_scan import clamp_run_position
from .rows import from_optional_micros, make_storable, to_json, to_micros
from .tables import jobs, schedule_runs, schedules

MAX_KEPT_RUNS = 1000  # per schedule, approximately
TRIM_INTERVAL = 50  # steps of a schedule between two trims of its history

_ALPHABET = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    schedule: Schedule
    job: Job  # with its secrets
    damage: str | None = None  # why the secrets cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScheduleRun:
    due_at: datetime
    at: datetime
    result: RunResult
    message: str = ""
    actor: str = "holdfast"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    """The next step of a schedule, applied if it is still at the version of `after`. The job belongs to the run."""

    after: Schedule  # with the version it was read at
    run: NewScheduleRun | None = None
    job: NewJob | None = None


@dataclass(frozen=True, slots=True)
class ScheduleStepResult:
    applied: bool  # False: the schedule had changed, and nothing was done
    inserted: InsertedJob | None = None


# -- one schedule


def create_schedule(conn: Connection, *, schedule: Schedule, job: Job) -> Schedule:
    """Insert a schedule with a new id and return it. `job` has the secrets."""
    taken = True
    while taken:
        made = replace(schedule, id=generate_schedule_id())
        taken = conn.scalar(select(schedules.c.id).where(schedules.c.id == made.id)) is not None
    conn.execute(insert(schedules), {**_schedule_to_row(made), **_template_to_row(conn, made, job), "version": 0})
    return made


def generate_schedule_id() -> str:
    return "recurrence-" + "".join(secrets.choice(_ALPHABET) for _ in range(6))


def load_schedule(conn: Connection, id: str) -> StoredSchedule | None:
    row = conn.execute(select(schedules).where(schedules.c.id == make_storable(id))).one_or_none()
    return None if row is None else _stored_schedule_from_row(conn, row)


def load_schedule_names(conn: Connection, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Map the id of each existing schedule to its name and group."""
    columns = (schedules.c.id, schedules.c.name, schedules.c.group_name)
    found = conn.execute(select(*columns).where(schedules.c.id.in_([make_storable(id) for id in ids])))
    return {row.id: (row.name, row.group_name) for row in found}


def update_schedule(
    conn: Connection, *, schedule: Schedule, job: Job | None = None, run: NewScheduleRun | None = None
) -> Schedule | None:
    """Update everything, and the template if `job` is given. None if its version has changed since it was read."""
    template = {} if job is None else _template_to_row(conn, schedule, job)
    if not _update_if_unchanged(conn, schedule, {**_schedule_to_row(schedule), **template}):
        return None
    if run is not None:
        conn.execute(insert(schedule_runs), _run_to_row(schedule.id, run))
    return replace(schedule, version=schedule.version + 1)


def delete_schedule(conn: Connection, id: str) -> bool:
    """Delete a schedule and its history. Its jobs are kept."""
    conn.execute(delete(schedule_runs).where(schedule_runs.c.schedule_id == id))
    clamp_run_position(conn)
    return bool(conn.execute(delete(schedules).where(schedules.c.id == id)).rowcount)


def count_user_schedules(conn: Connection, user: str) -> int:
    return conn.scalar(select(func.count()).select_from(schedules).where(schedules.c.user_name == user)) or 0


def has_schedules(conn: Connection, *, user: str | None = None, group: str | None = None) -> bool:
    column, name = (schedules.c.group_name, group) if user is None else (schedules.c.user_name, user)
    return conn.scalar(select(schedules.c.id).where(column == make_storable(name or "")).limit(1)) is not None


def record_validity(conn: Connection, found: Sequence[Schedule]) -> None:
    """Record whether schedules are valid, except for those that have changed since."""
    for schedule in found:
        row = record_to_row(schedule, schedules)
        values = {name: row[name] for name in ("invalid", "message", "next_run_at")}
        here = and_(schedules.c.id == schedule.id, schedules.c.version == schedule.version)
        conn.execute(update(schedules).where(here).values(values))


# -- lists

_ORDER_COLUMNS = {
    ScheduleOrder.UPDATED: schedules.c.updated_at,
    ScheduleOrder.CREATED: schedules.c.created_at,
    ScheduleOrder.NAME: schedules.c.name,
    ScheduleOrder.GROUP: schedules.c.group_name,
    ScheduleOrder.USER: schedules.c.user_name,
    ScheduleOrder.NEXT_RUN: schedules.c.next_run_at,
}


def list_schedules(conn: Connection, query: ScheduleQuery) -> SchedulePage:
    """Return a page of schedules. Those without a next run are last in both directions."""
    where = and_(*_build_conditions(query))
    total = conn.scalar(select(func.count()).select_from(schedules).where(where)) or 0
    column = _ORDER_COLUMNS[query.order]
    order = (column.is_(None), column.desc() if query.descending else column, schedules.c.id)
    rows = conn.execute(select(schedules).where(where).order_by(*order).offset(query.offset).limit(query.limit))
    return SchedulePage(tuple(_schedule_from_row(row) for row in rows), total)


def _build_conditions(query: ScheduleQuery) -> list[Any]:
    found: list[Any] = [schedules.c.id.is_not(None)]
    if query.groups is not None:
        found.append(schedules.c.group_name.in_([make_storable(group) for group in query.groups]))
    if query.user is not None:
        found.append(schedules.c.user_name == make_storable(query.user))
    if query.text:
        part = make_storable(query.text).lower()
        found.append(
            or_(
                func.lower(schedules.c.name).contains(part, autoescape=True),
                schedules.c.id.contains(part, autoescape=True),
            )
        )
    return found


def list_runs(conn: Connection, id: str, before: int | None, limit: int) -> list[ScheduleRun]:
    """Return runs before a seq, newest first."""
    joined = schedule_runs.outerjoin(jobs, jobs.c.id == schedule_runs.c.job_id)
    query = select(schedule_runs, jobs.c.state).select_from(joined).where(schedule_runs.c.schedule_id == id)
    if before is not None:
        query = query.where(schedule_runs.c.seq < before)
    return [_run_from_row(row) for row in conn.execute(query.order_by(schedule_runs.c.seq.desc()).limit(limit))]


_NEWEST_RUN = (
    select(func.max(schedule_runs.c.seq)).where(schedule_runs.c.schedule_id == schedules.c.id).scalar_subquery()
)


def load_newest_runs(conn: Connection, ids: Sequence[str]) -> dict[str, ScheduleRun]:
    """Map each schedule that has runs to its newest run."""
    newest = select(_NEWEST_RUN).where(schedules.c.id.in_(ids))
    joined = schedule_runs.outerjoin(jobs, jobs.c.id == schedule_runs.c.job_id)
    query = select(schedule_runs, jobs.c.state).select_from(joined).where(schedule_runs.c.seq.in_(newest))
    return {row.schedule_id: _run_from_row(row) for row in conn.execute(query)}


# -- due schedules

_SELECT_DUE_SCHEDULES = (
    select(schedules).where(schedules.c.next_run_at <= bindparam("now")).order_by(schedules.c.next_run_at)
)
_SELECT_NEXT_DUE_TIME = text("SELECT min(next_run_at) FROM schedules WHERE next_run_at IS NOT NULL")
_OPEN_CONDITION = "schedule_id IS NOT NULL AND finished_at IS NULL"
_SELECT_OPEN_JOBS = text(
    f"SELECT schedule_id, id FROM jobs WHERE {_OPEN_CONDITION} AND schedule_id IN :ids"  # noqa: S608
).bindparams(bindparam("ids", expanding=True))
# Jobs that are replaced by a newer one of the same schedule.
_SELECT_SUPERSEDED_JOBS = text(
    "SELECT j.id, j.schedule_id FROM jobs j JOIN schedules s ON s.id = j.schedule_id"
    " WHERE j.schedule_id IS NOT NULL AND j.finished_at IS NULL AND j.stop_json IS NULL AND s.overlap = 'cancel'"
    " AND EXISTS (SELECT 1 FROM jobs n WHERE n.schedule_id = j.schedule_id AND n.seq > j.seq)"
)


def list_due_schedules(conn: Connection, now: datetime, limit: int) -> list[StoredSchedule]:
    """Return due schedules, longest due first."""
    return [
        _stored_schedule_from_row(conn, row)
        for row in conn.execute(_SELECT_DUE_SCHEDULES.limit(limit), {"now": to_micros(now)})
    ]


def find_next_due_time(conn: Connection) -> datetime | None:
    return from_optional_micros(conn.scalar(_SELECT_NEXT_DUE_TIME))


def load_open_jobs_by_schedule(conn: Connection, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map each schedule to its jobs that are not final."""
    found: dict[str, tuple[str, ...]] = {}
    for schedule, job in conn.execute(_SELECT_OPEN_JOBS, {"ids": list(ids)}):
        found[schedule] = (*found.get(schedule, ()), job)
    return found


def list_queued_schedules(conn: Connection, ids: Sequence[str]) -> list[StoredSchedule]:
    """Return the schedules with a run that waits for an earlier job to end."""
    waiting = and_(schedules.c.id.in_(ids), schedules.c.queued_at.is_not(None))
    return [_stored_schedule_from_row(conn, row) for row in conn.execute(select(schedules).where(waiting))]


def load_superseded_jobs(conn: Connection) -> dict[str, str]:
    """Map each superseded job to its schedule."""
    return {row.id: row.schedule_id for row in conn.execute(_SELECT_SUPERSEDED_JOBS)}


def list_schedules_after(conn: Connection, id: str, limit: int) -> list[Schedule]:
    """Return the next schedules, sorted by id."""
    rows = conn.execute(select(schedules).where(schedules.c.id > id).order_by(schedules.c.id).limit(limit))
    return [_schedule_from_row(row) for row in rows]


_UPDATE_ADVANCED_SCHEDULE = text(
    "UPDATE schedules SET invalid = :invalid, message = :message, next_run_at = :next_run_at, queued_at = :queued_at,"
    " last_run_at = :last_run_at, version = version + 1 WHERE id = :id AND version = :version"
)


def advance_schedules(conn: Connection, turns: Sequence[ScheduleStep]) -> list[ScheduleStepResult]:
    """Apply each step, unless its schedule has changed since it was read. Each is of another schedule."""
    moved = [
        bool(conn.execute(_UPDATE_ADVANCED_SCHEDULE, record_to_row(turn.after, schedules)).rowcount) for turn in turns
    ]
    taken = [turn for turn, did in zip(turns, moved, strict=True) if did]
    made = iter(_insert_schedule_jobs(conn, [turn.job for turn in taken if turn.job is not None]))
    jobs_of = {turn.after.id: next(made) for turn in taken if turn.job is not None}
    history = [_run_to_row(turn.after.id, turn.run, jobs_of.get(turn.after.id)) for turn in taken if turn.run]
    if history:
        conn.execute(insert(schedule_runs), history)
    for turn in turns:
        if turn.after.version % TRIM_INTERVAL == TRIM_INTERVAL - 1:
            _trim_history(conn, turn.after.id)
    return [
        ScheduleStepResult(did, jobs_of.get(turn.after.id) if did else None)
        for turn, did in zip(turns, moved, strict=True)
    ]


def _insert_schedule_jobs(conn: Connection, news: Sequence[NewJob]) -> list[InsertedJob]:
    return insert_jobs(conn, news) if news else []


def insert_manual_run(conn: Connection, id: str, run: NewScheduleRun, job: NewJob) -> InsertedJob:
    """Insert a job that a user started by hand, and its run; Conflict if the schedule was deleted."""
    if conn.scalar(select(schedules.c.id).where(schedules.c.id == id)) is None:
        raise Conflict(msg("Schedule {id} has been deleted", id=id))
    inserted = insert_job(conn, new=job)
    conn.execute(insert(schedule_runs), _run_to_row(id, run, inserted))
    _trim_history(conn, id)
    return inserted


_SELECT_NEWEST_SURPLUS_RUN = (
    select(schedule_runs.c.seq)
    .where(schedule_runs.c.schedule_id == bindparam("id"))
    .order_by(schedule_runs.c.seq.desc())
    .limit(1)
    .offset(MAX_KEPT_RUNS)
)


def _trim_history(conn: Connection, id: str) -> None:
    last = conn.scalar(_SELECT_NEWEST_SURPLUS_RUN, {"id": id})
    if last is not None:
        old = and_(schedule_runs.c.schedule_id == id, schedule_runs.c.seq <= last)
        conn.execute(delete(schedule_runs).where(old))


def _update_if_unchanged(conn: Connection, schedule: Schedule, values: Mapping[str, Any]) -> bool:
    here = and_(schedules.c.id == schedule.id, schedules.c.version == schedule.version)
    return bool(
        conn.execute(update(schedules).where(here).values({**values, "version": schedule.version + 1})).rowcount
    )


# -- rows


def _schedule_to_row(schedule: Schedule) -> dict[str, Any]:
    return {**record_to_row(schedule, schedules), **record_to_row(schedule.recurrence, schedules)}


def _template_to_row(conn: Connection, schedule: Schedule, job: Job) -> dict[str, Any]:
    sealed = None
    if job.secrets:
        sealed = get_vault(conn).seal(to_json(dict(job.secrets)).encode(), about=schedule.id)
    return {"spec_json": to_json(job_to_json(job, secrets=False)), "secrets": sealed}


def _stored_schedule_from_row(conn: Connection, row: Row[Any]) -> StoredSchedule:
    schedule = _schedule_from_row(row)
    if row.secrets is None:
        return StoredSchedule(schedule, schedule.job)
    try:
        opened = get_vault(conn).unseal(bytes(row.secrets), about=row.id)
    except UserError as error:  # other schedules must continue
        return StoredSchedule(schedule, schedule.job, damage=error.message)
    return StoredSchedule(schedule, replace(schedule.job, secrets=json.loads(opened)))


def _schedule_from_row(row: Row[Any]) -> Schedule:
    job = job_from_json(json.loads(row.spec_json))
    return record_from_row(Schedule, row, job=job, recurrence=record_from_row(Recurrence, row))


def _run_to_row(schedule_id: str, run: NewScheduleRun, job: InsertedJob | None = None) -> dict[str, Any]:
    job_id = None if job is None else job.summary.id
    return record_to_row(run, schedule_runs, schedule_id=schedule_id, job_id=job_id)


def _run_from_row(row: Row[Any]) -> ScheduleRun:
    return record_from_row(ScheduleRun, row, job_state=JobState(row.state) if row.state else None)
