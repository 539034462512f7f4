"""Events of jobs, in order. Written in the transaction of the change they record, never altered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from holdfast.core.records import Event, NewEvent

from ..mapping import record_from_row
from ..rows import make_storable
from ..statements import MAX_INT
from .rows import event_to_row

_INSERT_EVENT = text(
    "INSERT INTO events (job_seq, at, kind, message, actor, task, attempt, state)"
    " VALUES (:job_seq, :at, :kind, :message, :actor, :task, :attempt, :state)"
)
_SELECT_JOB_SEQ = text("SELECT seq FROM jobs WHERE id = :job_id")
_SELECT_JOB_EVENTS_SQL = "SELECT * FROM events WHERE job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
_SELECT_EVENTS_AFTER = text(f"{_SELECT_JOB_EVENTS_SQL} AND seq > :after ORDER BY seq LIMIT :limit")
_SELECT_NEWEST_EVENTS = text(f"{_SELECT_JOB_EVENTS_SQL} AND seq < :before ORDER BY seq DESC LIMIT :limit")
_SELECT_FIRST_EVENT_OF_KIND = text(
    f"{_SELECT_JOB_EVENTS_SQL} AND kind = :kind AND attempt = :attempt ORDER BY seq LIMIT 1"
)


def insert_events(conn: Connection, values: Sequence[dict[str, Any]]) -> None:
    """Insert events; for functions of this package, with the change they make."""
    if values:
        conn.execute(_INSERT_EVENT, values)


def record_event(conn: Connection, job_id: str, event: NewEvent) -> None:
    """Record an event that does not change the job. Does nothing if the job does not exist."""
    seq = conn.scalar(_SELECT_JOB_SEQ, {"job_id": make_storable(job_id)})
    if seq is not None:
        insert_events(conn, [event_to_row(seq, event)])


def list_events(conn: Connection, job_id: str, after_seq: int = 0, limit: int = 1000) -> list[Event]:
    """Return events after `after_seq`, oldest first. Empty if the job does not exist."""
    rows = conn.execute(_SELECT_EVENTS_AFTER, {"job_id": make_storable(job_id), "after": after_seq, "limit": limit})
    return [_event_from_row(job_id, row) for row in rows]


def list_newest_events(conn: Connection, job_id: str, before_seq: int | None, limit: int) -> list[Event]:
    """Return events before `before_seq`, newest first."""
    before = MAX_INT if before_seq is None else before_seq
    rows = conn.execute(_SELECT_NEWEST_EVENTS, {"job_id": make_storable(job_id), "before": before, "limit": limit})
    return [_event_from_row(job_id, row) for row in rows]


def find_first_event(conn: Connection, job_id: str, kind: str, attempt: int) -> Event | None:
    """Find the first event of a kind in an attempt. Reads all events of the job if there is none."""
    row = conn.execute(
        _SELECT_FIRST_EVENT_OF_KIND, {"job_id": make_storable(job_id), "kind": kind, "attempt": attempt}
    ).first()
    return _event_from_row(job_id, row) if row is not None else None


def _event_from_row(job_id: str, row: Row[Any]) -> Event:
    return record_from_row(Event, row, job_id=job_id)
