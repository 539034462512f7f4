"""What people changed about the place. Written with the change it tells of, never altered, removed after a time."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select

from holdfast.core.audit import Act, AuditEvent, AuditKind, AuditPage, AuditQuery, NewAuditEvent

from .rows import instant, micros, storable, to_json
from .tables import audit


def insert_audit(conn: Connection, event: NewAuditEvent) -> None:
    values = {
        "at": micros(event.at),
        "actor": storable(event.actor),
        "kind": event.kind.value,
        "act": event.act.value,
        "subject": storable(event.subject),
        "address": storable(event.address),
        "detail_json": to_json(dict(event.detail)) if event.detail else None,
    }
    conn.execute(insert(audit), values)


def list_audit(conn: Connection, query: AuditQuery) -> AuditPage:
    """Newest first."""
    found = select(audit).where(*_conditions(conn, query)).order_by(audit.c.seq.desc()).limit(query.limit + 1)
    events = [_event_of(row) for row in conn.execute(found)]
    shown = tuple(events[: query.limit])
    return AuditPage(shown, shown[-1].seq if len(events) > query.limit else None)


def _conditions(conn: Connection, query: AuditQuery) -> list[ColumnElement[bool]]:
    """Times become bounds of seq, which rows are ordered by: what lies outside is never read."""
    found: list[ColumnElement[bool]] = []
    if query.before is not None:
        found.append(audit.c.seq < query.before)
    if query.since is not None:
        first = conn.scalar(select(func.min(audit.c.seq)).where(audit.c.at >= micros(query.since)))
        found += [audit.c.at >= micros(query.since), audit.c.seq >= (first if first is not None else 2**62)]
    if query.until is not None:
        last = conn.scalar(select(func.max(audit.c.seq)).where(audit.c.at < micros(query.until)))
        found += [audit.c.at < micros(query.until), audit.c.seq <= (last or 0)]
    equal = {audit.c.actor: query.actor, audit.c.kind: query.kind, audit.c.subject: query.subject}
    found += [column == storable(str(value)) for column, value in equal.items() if value is not None]
    return found


def delete_audit(conn: Connection, before: datetime, limit: int) -> int:
    """The oldest ones, from before a moment; how many there were."""
    due = select(audit.c.seq).where(audit.c.at < micros(before)).order_by(audit.c.at).limit(limit)
    return conn.execute(delete(audit).where(audit.c.seq.in_(due))).rowcount


def _event_of(row: Row[Any]) -> AuditEvent:
    return AuditEvent(
        seq=row.seq,
        at=instant(row.at),
        actor=row.actor,
        kind=AuditKind(row.kind),
        act=Act(row.act),
        subject=row.subject,
        address=row.address,
        detail=json.loads(row.detail_json) if row.detail_json else {},
    )
