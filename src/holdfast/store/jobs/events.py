"""What happened to jobs, in order. Written with the change it tells of, never altered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from holdfast.core.messages import unpack
from holdfast.core.records import Event, NewEvent
from holdfast.core.states import JobState

from ..rows import event_values, instant, storable
from ..statements import MAX_INT

_INSERT = text(
    "INSERT INTO events (job_seq, at, kind, message, actor, task, attempt, state)"
    " VALUES (:job_seq, :at, :kind, :message, :actor, :task, :attempt, :state)"
)
_SEQ_OF = text("SELECT seq FROM jobs WHERE id = :job_id")
_LIST = text(
    "SELECT * FROM events WHERE job_seq = (SELECT seq FROM jobs WHERE id = :job_id) AND seq > :after"
    " ORDER BY seq LIMIT :limit"
)
_NEWEST = text(
    "SELECT * FROM events WHERE job_seq = (SELECT seq FROM jobs WHERE id = :job_id) AND seq < :before"
    " ORDER BY seq DESC LIMIT :limit"
)
_FIRST_OF_KIND = text(
    "SELECT * FROM events WHERE job_seq = (SELECT seq FROM jobs WHERE id = :job_id) AND kind = :kind"
    " AND attempt = :attempt ORDER BY seq LIMIT 1"
)


def insert_events(conn: Connection, values: Sequence[dict[str, Any]]) -> None:
    """For the functions of this folder, with the change they make."""
    if values:
        conn.execute(_INSERT, values)


def note_event(conn: Connection, job_id: str, event: NewEvent) -> None:
    """One that changes nothing of the job. Harmless when there is no such job."""
    seq = conn.scalar(_SEQ_OF, {"job_id": storable(job_id)})
    if seq is not None:
        insert_events(conn, [event_values(seq, event)])


def list_events(conn: Connection, job_id: str, after_seq: int = 0, limit: int = 1000) -> list[Event]:
    """Oldest first, from the one after `after_seq`. Empty when there is no such job."""
    rows = conn.execute(_LIST, {"job_id": storable(job_id), "after": after_seq, "limit": limit})
    return [_event(job_id, row) for row in rows]


def newest_events(conn: Connection, job_id: str, before_seq: int | None, limit: int) -> list[Event]:
    """Newest first, from the one before `before_seq`."""
    before = MAX_INT if before_seq is None else before_seq
    rows = conn.execute(_NEWEST, {"job_id": storable(job_id), "before": before, "limit": limit})
    return [_event(job_id, row) for row in rows]


def first_event(conn: Connection, job_id: str, kind: str, attempt: int) -> Event | None:
    """Of that kind, in that attempt of the job. Every event of the job is looked at where there is none."""
    row = conn.execute(_FIRST_OF_KIND, {"job_id": storable(job_id), "kind": kind, "attempt": attempt}).first()
    return _event(job_id, row) if row is not None else None


def _event(job_id: str, row: Row[Any]) -> Event:
    return Event(
        seq=row.seq,
        job_id=job_id,
        kind=row.kind,
        message=unpack(row.message),
        at=instant(row.at),
        actor=row.actor,
        task=row.task,
        attempt=row.attempt,
        state=JobState(row.state) if row.state else None,
    )
