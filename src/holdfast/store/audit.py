"""Audit entries: written in the transaction of the change they record, never altered, deleted after a time."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from holdfast.core.audit import AuditEvent, AuditPage, AuditQuery, NewAuditEvent

from .mapping import record_from_row, record_to_row
from .rows import make_storable, to_micros
from .tables import audit


def insert_audit_entry(conn: Connection, event: NewAuditEvent) -> None:
    conn.execute(insert(audit), record_to_row(event, audit))


def list_audit_entries(conn: Connection, query: AuditQuery) -> AuditPage:
    """Return a page of audit entries, newest first."""
    found = (
        select(audit).where(*_build_audit_conditions(conn, query)).order_by(audit.c.seq.desc()).limit(query.limit + 1)
    )
    events = [record_from_row(AuditEvent, row) for row in conn.execute(found)]
    shown = tuple(events[: query.limit])
    return AuditPage(shown, shown[-1].seq if len(events) > query.limit else None)


def _build_audit_conditions(conn: Connection, query: AuditQuery) -> list[ColumnElement[bool]]:
    """Build the conditions. Times become bounds of `seq`, the sort key, so that rows outside are never read."""
    found: list[ColumnElement[bool]] = []
    if query.before is not None:
        found.append(audit.c.seq < query.before)
    if query.since is not None:
        first = conn.scalar(select(func.min(audit.c.seq)).where(audit.c.at >= to_micros(query.since)))
        found += [audit.c.at >= to_micros(query.since), audit.c.seq >= (first if first is not None else 2**62)]
    if query.until is not None:
        last = conn.scalar(select(func.max(audit.c.seq)).where(audit.c.at < to_micros(query.until)))
        found += [audit.c.at < to_micros(query.until), audit.c.seq <= (last or 0)]
    equal = {audit.c.actor: query.actor, audit.c.kind: query.kind, audit.c.subject: query.subject}
    found += [column == make_storable(str(value)) for column, value in equal.items() if value is not None]
    return found


def delete_audit_entries(conn: Connection, before: datetime, limit: int) -> int:
    """Delete the oldest entries created before a time; return how many."""
    due = select(audit.c.seq).where(audit.c.at < to_micros(before)).order_by(audit.c.at).limit(limit)
    return conn.execute(delete(audit).where(audit.c.seq.in_(due))).rowcount
