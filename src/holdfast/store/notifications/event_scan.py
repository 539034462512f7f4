"""Events since the last scan that users may want notifications of.

The scan position is saved in the same write as the notifications: none is sent twice or lost when a server dies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from holdfast.core.schedule import ScheduleRun

from ..mapping import record_from_row

_SCAN_POSITION_KEY = "noticed"  # in meta: the newest event and the newest schedule run that were scanned

_SELECT_NEWEST_POSITION = text(
    "SELECT (SELECT max(seq) FROM events) AS event, (SELECT max(seq) FROM schedule_runs) AS run"
)
_SELECT_SCAN_POSITION = text("SELECT value FROM meta WHERE key = :key")
_INSERT_SCAN_POSITION = text("INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING")
_DELETE_SCAN_POSITION = text("DELETE FROM meta WHERE key = :key")
_UPDATE_SCAN_POSITION = text("UPDATE meta SET value = :after WHERE key = :key AND value = :before")
_SELECT_EVENTS = text(
    "SELECT e.seq, e.kind, e.message, e.at, e.actor, e.task, e.state, e.attempt, j.id, j.name, j.user_name,"
    " j.group_name, j.submitted_at, j.started_at, j.finished_at, j.exit_code,"
    " EXISTS (SELECT 1 FROM notice_jobs n WHERE n.job_seq = e.job_seq) AS asks"
    " FROM events e JOIN jobs j ON j.seq = e.job_seq"
    " WHERE e.seq > :after AND e.kind IN :kinds AND (e.job_seq IN (SELECT job_seq FROM notice_jobs)"
    " OR j.user_name IN (SELECT user_name FROM notice_recipients)) ORDER BY e.seq LIMIT :limit"
).bindparams(bindparam("kinds", expanding=True))
_SELECT_MISSED_RUNS = text(
    "SELECT r.*, s.name, s.user_name, s.group_name FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id"
    " WHERE r.seq > :after AND r.result IN ('skipped', 'missed', 'failed') ORDER BY r.seq LIMIT :limit"
)


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """The newest event and run that were scanned."""

    event: int
    run: int

    def __str__(self) -> str:
        return f"{self.event} {self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiableEvent:
    """An event of a job, with the details of the job for a notification."""

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
    asks: bool  # the job itself requests notifications


@dataclass(frozen=True, slots=True)
class MissedRun:
    """A run that a schedule missed."""

    run: ScheduleRun
    name: str
    user: str
    group: str


@dataclass(frozen=True, slots=True)
class EventBatch:
    before: ScanPosition
    after: ScanPosition
    events: tuple[NotifiableEvent, ...]
    runs: tuple[MissedRun, ...]
    more: bool  # there are further ones


def start_event_scan(conn: Connection) -> None:
    """Start scanning at the newest event, unless started before: earlier events are not notified."""
    newest = conn.execute(_SELECT_NEWEST_POSITION).one()
    conn.execute(
        _INSERT_SCAN_POSITION,
        {"key": _SCAN_POSITION_KEY, "value": str(ScanPosition(newest.event or 0, newest.run or 0))},
    )


def stop_event_scan(conn: Connection) -> None:
    """Stop scanning: events until the next start are not notified."""
    conn.execute(_DELETE_SCAN_POSITION, {"key": _SCAN_POSITION_KEY})


def load_event_batch(conn: Connection, kinds: Iterable[str], limit: int) -> EventBatch:
    before = _load_scan_position(conn)
    newest = conn.execute(_SELECT_NEWEST_POSITION).one()
    rows = conn.execute(_SELECT_EVENTS, {"after": before.event, "kinds": list(kinds), "limit": limit}).all()
    runs = conn.execute(_SELECT_MISSED_RUNS, {"after": before.run, "limit": limit}).all()
    after = ScanPosition(
        _compute_scan_end(rows, limit, newest.event or 0), _compute_scan_end(runs, limit, newest.run or 0)
    )
    return EventBatch(
        before,
        ScanPosition(max(before.event, after.event), max(before.run, after.run)),
        tuple(record_from_row(NotifiableEvent, row, job_id=row.id) for row in rows),
        tuple(_missed_run_from_row(row) for row in runs),
        more=limit in (len(rows), len(runs)),
    )


def move_scan_position(conn: Connection, before: ScanPosition, after: ScanPosition) -> bool:
    """Move the scan position; return False if another scan has moved it."""
    return bool(
        conn.execute(
            _UPDATE_SCAN_POSITION, {"key": _SCAN_POSITION_KEY, "before": str(before), "after": str(after)}
        ).rowcount
    )


def clamp_run_position(conn: Connection) -> None:
    """Move the position back after runs were deleted: SQLite may reuse their numbers for new runs."""
    before, newest = _load_scan_position(conn), conn.execute(_SELECT_NEWEST_POSITION).one().run or 0
    if newest < before.run:
        move_scan_position(conn, before, ScanPosition(before.event, newest))


def _load_scan_position(conn: Connection) -> ScanPosition:
    event, run = str(conn.scalar(_SELECT_SCAN_POSITION, {"key": _SCAN_POSITION_KEY}) or "0 0").split()
    return ScanPosition(int(event), int(run))


def _compute_scan_end(rows: Any, limit: int, newest: int) -> int:
    return int(rows[-1].seq) if len(rows) == limit else newest


def _missed_run_from_row(row: Row[Any]) -> MissedRun:
    return MissedRun(record_from_row(ScheduleRun, row, job_id=None), row.name, row.user_name, row.group_name)
