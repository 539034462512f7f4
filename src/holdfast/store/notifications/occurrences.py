"""What happened since somebody last looked, as far as anybody wants to be told of it.

How far was looked is kept beside what came of it, and changes in the same write: nothing is told twice or left out,
whenever a server dies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from holdfast.core.messages import unpack
from holdfast.core.schedule import Run, RunResult

from ..rows import instant, maybe_instant

_KEY = "noticed"  # in meta: the newest event and the newest run of a schedule that were looked at

_NEWEST = text("SELECT (SELECT max(seq) FROM events) AS event, (SELECT max(seq) FROM schedule_runs) AS run")
_MARK = text("SELECT value FROM meta WHERE key = :key")
_FIRST_MARK = text("INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING")
_FORGET_MARK = text("DELETE FROM meta WHERE key = :key")
_MOVE = text("UPDATE meta SET value = :after WHERE key = :key AND value = :before")
_EVENTS = text(
    "SELECT e.seq, e.kind, e.message, e.at, e.actor, e.task, e.state, e.attempt, j.id, j.name, j.user_name,"
    " j.group_name, j.submitted_at, j.started_at, j.finished_at, j.exit_code,"
    " EXISTS (SELECT 1 FROM notice_jobs n WHERE n.job_seq = e.job_seq) AS asks"
    " FROM events e JOIN jobs j ON j.seq = e.job_seq"
    " WHERE e.seq > :after AND e.kind IN :kinds AND (e.job_seq IN (SELECT job_seq FROM notice_jobs)"
    " OR j.user_name IN (SELECT user_name FROM notice_recipients)) ORDER BY e.seq LIMIT :limit"
).bindparams(bindparam("kinds", expanding=True))
_RUNS = text(
    "SELECT r.*, s.name, s.user_name, s.group_name FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id"
    " WHERE r.seq > :after AND r.result IN ('skipped', 'missed', 'failed') ORDER BY r.seq LIMIT :limit"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far was looked."""

    event: int
    run: int

    def __str__(self) -> str:
        return f"{self.event} {self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """An event of a job, with what is told of the job."""

    seq: int
    kind: str
    message: str
    at: datetime
    actor: str
    task: str | None
    state: str | None
    attempt: int | None
    job_id: str
    name: str
    user: str
    group: str
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    asks: bool  # the job asks for notices itself


@dataclass(frozen=True, slots=True)
class MissedRun:
    """A time at which a schedule did not run."""

    run: Run
    name: str
    user: str
    group: str


@dataclass(frozen=True, slots=True)
class Happenings:
    before: Mark
    after: Mark
    events: tuple[Occurrence, ...]
    runs: tuple[MissedRun, ...]
    more: bool  # there are others after these


def begin_noticing(conn: Connection) -> None:
    """From now on, where it has not begun: what was before is told to nobody."""
    newest = conn.execute(_NEWEST).one()
    conn.execute(_FIRST_MARK, {"key": _KEY, "value": str(Mark(newest.event or 0, newest.run or 0))})


def end_noticing(conn: Connection) -> None:
    """Where it is switched off: once it begins again, what was meanwhile is told to nobody."""
    conn.execute(_FORGET_MARK, {"key": _KEY})


def happenings(conn: Connection, kinds: Iterable[str], limit: int) -> Happenings:
    """The next few that somebody may want to be told of."""
    before = _mark(conn)
    newest = conn.execute(_NEWEST).one()
    rows = conn.execute(_EVENTS, {"after": before.event, "kinds": list(kinds), "limit": limit}).all()
    runs = conn.execute(_RUNS, {"after": before.run, "limit": limit}).all()
    after = Mark(_upto(rows, limit, newest.event or 0), _upto(runs, limit, newest.run or 0))
    return Happenings(
        before,
        Mark(max(before.event, after.event), max(before.run, after.run)),
        tuple(_happening(row) for row in rows),
        tuple(_missed(row) for row in runs),
        more=limit in (len(rows), len(runs)),
    )


def move_mark(conn: Connection, before: Mark, after: Mark) -> bool:
    """False: somebody else has looked further meanwhile."""
    return bool(conn.execute(_MOVE, {"key": _KEY, "before": str(before), "after": str(after)}).rowcount)


def runs_removed(conn: Connection) -> None:
    """SQLite may give their numbers again: what comes under them was not looked at."""
    before, newest = _mark(conn), conn.execute(_NEWEST).one().run or 0
    if newest < before.run:
        move_mark(conn, before, Mark(before.event, newest))


def _mark(conn: Connection) -> Mark:
    event, run = str(conn.scalar(_MARK, {"key": _KEY}) or "0 0").split()
    return Mark(int(event), int(run))


def _upto(rows: Any, limit: int, newest: int) -> int:
    return int(rows[-1].seq) if len(rows) == limit else newest


def _happening(row: Row[Any]) -> Occurrence:
    return Occurrence(
        seq=row.seq,
        kind=row.kind,
        message=unpack(row.message),
        at=instant(row.at),
        actor=row.actor,
        task=row.task,
        state=row.state,
        attempt=row.attempt,
        job_id=row.id,
        name=row.name,
        user=row.user_name,
        group=row.group_name,
        submitted_at=instant(row.submitted_at),
        started_at=maybe_instant(row.started_at),
        finished_at=maybe_instant(row.finished_at),
        exit_code=row.exit_code,
        asks=bool(row.asks),
    )


def _missed(row: Row[Any]) -> MissedRun:
    run = Run(
        seq=row.seq,
        schedule_id=row.schedule_id,
        due_at=instant(row.due_at),
        at=instant(row.at),
        result=RunResult(row.result),
        message=unpack(row.message),
        actor=row.actor,
    )
    return MissedRun(run, row.name, row.user_name, row.group_name)
