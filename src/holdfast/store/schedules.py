"""Schedules, and what came of each time they were due.

A time that is due is taken by `advance`: the job, the row of history and the step to the next time are one write, which
happens only if the schedule is still as it was read. So none is lost and none is taken twice, whenever a server dies.
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
from holdfast.core.messages import msg, pack, unpack
from holdfast.core.schedule import (
    Invalid,
    Missed,
    Overlap,
    Recurrence,
    RecurrenceKind,
    Run,
    RunResult,
    Schedule,
    ScheduleOrder,
    SchedulePage,
    ScheduleQuery,
)
from holdfast.core.states import JobState

from .connections import vault_of
from .jobs.records import Inserted, NewJob, insert_job, insert_jobs
from .notifications.occurrences import runs_removed
from .rows import instant, maybe_instant, maybe_micros, micros, storable, to_json
from .tables import jobs, schedule_runs, schedules

KEPT_RUNS = 1000  # of each schedule's history, about so many of the newest
TRIM_INTERVAL = 50  # turns of a schedule between two looks at how long its history is

_ALPHABET = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Stored:
    schedule: Schedule
    job: Job  # with its secrets
    damage: str | None = None  # why they cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    due_at: datetime
    at: datetime
    result: RunResult
    message: str = ""
    actor: str = "holdfast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one schedule does next, if it is still at the version of `after`. A job belongs to its run."""

    after: Schedule  # with the version it was read at
    run: NewRun | None = None
    job: NewJob | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    moved: bool  # False: the schedule had changed, and nothing was done
    inserted: Inserted | None = None


# -- one schedule


def create_schedule(conn: Connection, *, schedule: Schedule, job: Job) -> Schedule:
    """Under a new id, which is in what is given back. `job` has the secrets."""
    taken = True
    while taken:
        made = replace(schedule, id=schedule_id())
        taken = conn.scalar(select(schedules.c.id).where(schedules.c.id == made.id)) is not None
    conn.execute(insert(schedules), {"id": made.id, "version": 0, **_values(made), **_template(conn, made, job)})
    return made


def schedule_id() -> str:
    return "recurrence-" + "".join(secrets.choice(_ALPHABET) for _ in range(6))


def load_schedule(conn: Connection, id: str) -> Stored | None:
    row = conn.execute(select(schedules).where(schedules.c.id == storable(id))).one_or_none()
    return None if row is None else _stored(conn, row)


def names(conn: Connection, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Id -> name and group, of those that exist."""
    columns = (schedules.c.id, schedules.c.name, schedules.c.group_name)
    found = conn.execute(select(*columns).where(schedules.c.id.in_([storable(id) for id in ids])))
    return {row.id: (row.name, row.group_name) for row in found}


def update_schedule(
    conn: Connection, *, schedule: Schedule, job: Job | None = None, run: NewRun | None = None
) -> Schedule | None:
    """All of it, and its template when `job` is given. None when it is no longer at the version it was read at."""
    template = {} if job is None else _template(conn, schedule, job)
    if not _step(conn, schedule, {**_values(schedule), **template}):
        return None
    if run is not None:
        conn.execute(insert(schedule_runs), _run_values(schedule.id, run))
    return replace(schedule, version=schedule.version + 1)


def delete_schedule(conn: Connection, id: str) -> bool:
    """With its history; its jobs stay."""
    conn.execute(delete(schedule_runs).where(schedule_runs.c.schedule_id == id))
    runs_removed(conn)
    return bool(conn.execute(delete(schedules).where(schedules.c.id == id)).rowcount)


def count_of_user(conn: Connection, user: str) -> int:
    return conn.scalar(select(func.count()).select_from(schedules).where(schedules.c.user_name == user)) or 0


def any_of(conn: Connection, *, user: str | None = None, group: str | None = None) -> bool:
    """Whether there is one of this user, or in this group."""
    column, name = (schedules.c.group_name, group) if user is None else (schedules.c.user_name, user)
    return conn.scalar(select(schedules.c.id).where(column == storable(name or "")).limit(1)) is not None


def note_validity(conn: Connection, found: Sequence[Schedule]) -> None:
    """What was found when somebody looked; nothing for those that have changed since."""
    for schedule in found:
        values = {
            "invalid": None if schedule.invalid is None else schedule.invalid.value,
            "message": storable(pack(schedule.message)),
            "next_run_at": maybe_micros(schedule.next_run_at),
        }
        here = and_(schedules.c.id == schedule.id, schedules.c.version == schedule.version)
        conn.execute(update(schedules).where(here).values(values))


# -- lists

_ORDERS = {
    ScheduleOrder.UPDATED: schedules.c.updated_at,
    ScheduleOrder.CREATED: schedules.c.created_at,
    ScheduleOrder.NAME: schedules.c.name,
    ScheduleOrder.GROUP: schedules.c.group_name,
    ScheduleOrder.USER: schedules.c.user_name,
    ScheduleOrder.NEXT_RUN: schedules.c.next_run_at,
}


def list_schedules(conn: Connection, query: ScheduleQuery) -> SchedulePage:
    """Those without a next run come last, whichever way it is sorted."""
    where = and_(*_conditions(query))
    total = conn.scalar(select(func.count()).select_from(schedules).where(where)) or 0
    column = _ORDERS[query.order]
    order = (column.is_(None), column.desc() if query.descending else column, schedules.c.id)
    rows = conn.execute(select(schedules).where(where).order_by(*order).offset(query.offset).limit(query.limit))
    return SchedulePage(tuple(_schedule(row) for row in rows), total)


def _conditions(query: ScheduleQuery) -> list[Any]:
    found: list[Any] = [schedules.c.id.is_not(None)]
    if query.groups is not None:
        found.append(schedules.c.group_name.in_([storable(group) for group in query.groups]))
    if query.user is not None:
        found.append(schedules.c.user_name == storable(query.user))
    if query.text:
        part = storable(query.text).lower()
        found.append(
            or_(
                func.lower(schedules.c.name).contains(part, autoescape=True),
                schedules.c.id.contains(part, autoescape=True),
            )
        )
    return found


def list_runs(conn: Connection, id: str, before: int | None, limit: int) -> list[Run]:
    """Newest first; those before a seq."""
    joined = schedule_runs.outerjoin(jobs, jobs.c.id == schedule_runs.c.job_id)
    query = select(schedule_runs, jobs.c.state).select_from(joined).where(schedule_runs.c.schedule_id == id)
    if before is not None:
        query = query.where(schedule_runs.c.seq < before)
    return [_run(row) for row in conn.execute(query.order_by(schedule_runs.c.seq.desc()).limit(limit))]


_NEWEST_RUN = (
    select(func.max(schedule_runs.c.seq)).where(schedule_runs.c.schedule_id == schedules.c.id).scalar_subquery()
)


def newest_runs(conn: Connection, ids: Sequence[str]) -> dict[str, Run]:
    """Schedule -> its newest run; without those that have none."""
    newest = select(_NEWEST_RUN).where(schedules.c.id.in_(ids))
    joined = schedule_runs.outerjoin(jobs, jobs.c.id == schedule_runs.c.job_id)
    query = select(schedule_runs, jobs.c.state).select_from(joined).where(schedule_runs.c.seq.in_(newest))
    return {row.schedule_id: _run(row) for row in conn.execute(query)}


# -- being due

_DUE = select(schedules).where(schedules.c.next_run_at <= bindparam("now")).order_by(schedules.c.next_run_at)
_FIRST_DUE = text("SELECT min(next_run_at) FROM schedules WHERE next_run_at IS NOT NULL")
_OPEN = "schedule_id IS NOT NULL AND finished_at IS NULL"
_OPEN_JOBS = text(f"SELECT schedule_id, id FROM jobs WHERE {_OPEN} AND schedule_id IN :ids").bindparams(  # noqa: S608
    bindparam("ids", expanding=True)
)
# Jobs that a newer one of the same schedule takes the place of.
_SUPERSEDED = text(
    "SELECT j.id, j.schedule_id FROM jobs j JOIN schedules s ON s.id = j.schedule_id"
    " WHERE j.schedule_id IS NOT NULL AND j.finished_at IS NULL AND j.stop_json IS NULL AND s.overlap = 'cancel'"
    " AND EXISTS (SELECT 1 FROM jobs n WHERE n.schedule_id = j.schedule_id AND n.seq > j.seq)"
)


def due(conn: Connection, now: datetime, limit: int) -> list[Stored]:
    """The next few that should have run by now, longest due first."""
    return [_stored(conn, row) for row in conn.execute(_DUE.limit(limit), {"now": micros(now)})]


def first_due(conn: Connection) -> datetime | None:
    return maybe_instant(conn.scalar(_FIRST_DUE))


def open_jobs(conn: Connection, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Schedule -> its jobs that are not final."""
    found: dict[str, tuple[str, ...]] = {}
    for schedule, job in conn.execute(_OPEN_JOBS, {"ids": list(ids)}):
        found[schedule] = (*found.get(schedule, ()), job)
    return found


def queued(conn: Connection, ids: Sequence[str]) -> list[Stored]:
    """Those of these with a run that waits for an earlier job to end."""
    waiting = and_(schedules.c.id.in_(ids), schedules.c.queued_at.is_not(None))
    return [_stored(conn, row) for row in conn.execute(select(schedules).where(waiting))]


def superseded(conn: Connection) -> dict[str, str]:
    """Job -> its schedule."""
    return {row.id: row.schedule_id for row in conn.execute(_SUPERSEDED)}


def page_after(conn: Connection, id: str, limit: int) -> list[Schedule]:
    """All schedules in order of their ids, a few at a time."""
    rows = conn.execute(select(schedules).where(schedules.c.id > id).order_by(schedules.c.id).limit(limit))
    return [_schedule(row) for row in rows]


_ADVANCE = text(
    "UPDATE schedules SET invalid = :invalid, message = :message, next_run_at = :next_run_at, queued_at = :queued_at,"
    " last_run_at = :last_run_at, version = version + 1 WHERE id = :id AND version = :version"
)


def _step_values(schedule: Schedule) -> dict[str, Any]:
    return {**_progress(schedule), "id": schedule.id, "version": schedule.version}


def advance(conn: Connection, turns: Sequence[Turn]) -> list[Taken]:
    """Each turn, of different schedules; or nothing of it when its schedule changed since it was read."""
    moved = [bool(conn.execute(_ADVANCE, _step_values(turn.after)).rowcount) for turn in turns]
    taken = [turn for turn, did in zip(turns, moved, strict=True) if did]
    made = iter(_insert(conn, [turn.job for turn in taken if turn.job is not None]))
    jobs_of = {turn.after.id: next(made) for turn in taken if turn.job is not None}
    history = [_run_values(turn.after.id, turn.run, jobs_of.get(turn.after.id)) for turn in taken if turn.run]
    if history:
        conn.execute(insert(schedule_runs), history)
    for turn in turns:
        if turn.after.version % TRIM_INTERVAL == TRIM_INTERVAL - 1:
            _trim(conn, turn.after.id)
    return [Taken(did, jobs_of.get(turn.after.id) if did else None) for turn, did in zip(turns, moved, strict=True)]


def _insert(conn: Connection, news: Sequence[NewJob]) -> list[Inserted]:
    return insert_jobs(conn, news) if news else []


def run_once(conn: Connection, id: str, run: NewRun, job: NewJob) -> Inserted:
    """A job that somebody asked for, and its row of history; Conflict when the schedule is gone."""
    if conn.scalar(select(schedules.c.id).where(schedules.c.id == id)) is None:
        raise Conflict(msg("The schedule {id} was just deleted", id=id))
    inserted = insert_job(conn, new=job)
    conn.execute(insert(schedule_runs), _run_values(id, run, inserted))
    _trim(conn, id)
    return inserted


_LAST_KEPT = (
    select(schedule_runs.c.seq)
    .where(schedule_runs.c.schedule_id == bindparam("id"))
    .order_by(schedule_runs.c.seq.desc())
    .limit(1)
    .offset(KEPT_RUNS)
)


def _trim(conn: Connection, id: str) -> None:
    last = conn.scalar(_LAST_KEPT, {"id": id})
    if last is not None:
        old = and_(schedule_runs.c.schedule_id == id, schedule_runs.c.seq <= last)
        conn.execute(delete(schedule_runs).where(old))


def _step(conn: Connection, schedule: Schedule, values: Mapping[str, Any]) -> bool:
    here = and_(schedules.c.id == schedule.id, schedules.c.version == schedule.version)
    return bool(
        conn.execute(update(schedules).where(here).values({**values, "version": schedule.version + 1})).rowcount
    )


# -- rows


def _progress(schedule: Schedule) -> dict[str, Any]:
    return {
        "invalid": None if schedule.invalid is None else schedule.invalid.value,
        "message": storable(pack(schedule.message)),
        "next_run_at": maybe_micros(schedule.next_run_at),
        "queued_at": maybe_micros(schedule.queued_at),
        "last_run_at": maybe_micros(schedule.last_run_at),
    }


def _values(schedule: Schedule) -> dict[str, Any]:
    recurrence = schedule.recurrence
    return {
        **_progress(schedule),
        "name": schedule.name,
        "user_name": schedule.user,
        "group_name": schedule.group,
        "source": schedule.source,
        "kind": recurrence.kind.value,
        "cron": None if recurrence.cron is None else storable(recurrence.cron),
        "timezone": storable(recurrence.timezone),
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
        "ends_at": maybe_micros(schedule.ends_at),
        "paused": schedule.paused,
        "created_at": micros(schedule.created_at),
        "updated_at": micros(schedule.updated_at),
    }


def _template(conn: Connection, schedule: Schedule, job: Job) -> dict[str, Any]:
    sealed = None
    if job.secrets:
        sealed = vault_of(conn).seal(to_json(dict(job.secrets)).encode(), about=schedule.id)
    return {"spec_json": to_json(job_to_json(job, secrets=False)), "secrets": sealed}


def _stored(conn: Connection, row: Row[Any]) -> Stored:
    schedule = _schedule(row)
    if row.secrets is None:
        return Stored(schedule, schedule.job)
    try:
        opened = vault_of(conn).unseal(bytes(row.secrets), about=row.id)
    except UserError as error:  # of one schedule: all others go on
        return Stored(schedule, schedule.job, damage=error.message)
    return Stored(schedule, replace(schedule.job, secrets=json.loads(opened)))


def _schedule(row: Row[Any]) -> Schedule:
    return Schedule(
        id=row.id,
        name=row.name,
        user=row.user_name,
        group=row.group_name,
        job=job_from_json(json.loads(row.spec_json)),
        source=row.source,
        recurrence=Recurrence(kind=RecurrenceKind(row.kind), cron=row.cron, timezone=row.timezone),
        overlap=Overlap(row.overlap),
        missed=Missed(row.missed),
        ends_at=maybe_instant(row.ends_at),
        paused=bool(row.paused),
        invalid=Invalid(row.invalid) if row.invalid else None,
        message=unpack(row.message),
        next_run_at=maybe_instant(row.next_run_at),
        queued_at=maybe_instant(row.queued_at),
        last_run_at=maybe_instant(row.last_run_at),
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        version=row.version,
    )


def _run_values(schedule_id: str, run: NewRun, job: Inserted | None = None) -> dict[str, Any]:
    return {
        "schedule_id": schedule_id,
        "due_at": micros(run.due_at),
        "at": micros(run.at),
        "result": run.result.value,
        "job_id": None if job is None else job.summary.id,
        "message": storable(pack(run.message)),
        "actor": run.actor,
    }


def _run(row: Row[Any]) -> Run:
    return Run(
        seq=row.seq,
        schedule_id=row.schedule_id,
        due_at=instant(row.due_at),
        at=instant(row.at),
        result=RunResult(row.result),
        job_id=row.job_id,
        job_state=JobState(row.state) if row.state else None,
        message=unpack(row.message),
        actor=row.actor,
    )
