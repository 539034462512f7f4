"""Notices: what is to be told to whom, and what came of each try.

A notice is taken for sending by a write that only one can win, after a connection is there and before anything is sent.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.notifications import NotificationEvent, NotificationRecord, NotificationState, Way, lane_of

from ..connections import vault_of
from ..rows import instant, maybe_instant, maybe_micros, micros, storable, to_json
from ..tables import notices


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    id: str
    user: str
    way: Way
    address: str
    event: NotificationEvent
    happening: str  # the same in all notices of one event
    job_id: str | None
    subject: str
    body: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """One that is to be sent."""

    seq: int
    notification: NewNotification
    lane: str
    tries: int  # so far
    readable: bool = True  # its address is; else it is empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a try."""

    seq: int
    tries: int  # with this one
    claimed: bool  # it got as far as being sent
    state: NotificationState
    at: datetime
    error: str = ""
    next_at: datetime | None = None


# -- making


def insert_notification(
    conn: Connection,
    notification: NewNotification,
    state: NotificationState = NotificationState.WAITING,
    *,
    due_at: datetime | None = None,
) -> int:
    """`due_at`: when it is sent first; None: at once."""
    waits = state is NotificationState.WAITING
    values = {
        "id": notification.id,
        "user_name": storable(notification.user),
        "way": notification.way.value,
        "lane": storable(lane_of(notification.way, notification.address)),
        "address_sealed": vault_of(conn).seal(notification.address.encode(), about=_about(notification.id)),
        "event": notification.event.value,
        "happening": storable(notification.happening),
        "job_id": notification.job_id,
        "subject": storable(notification.subject),
        "body_json": to_json(dict(notification.body)),
        "created_at": micros(notification.created_at),
        "state": state.value,
        "tries": 0 if waits else 1,
        "next_at": micros(due_at or notification.created_at) if waits else None,
        "error": "",
    }
    seq: int = conn.execute(insert(notices).returning(notices.c.seq), values).scalar_one()
    return seq


# -- sending


def due_notifications(
    conn: Connection,
    now: datetime,
    *,
    lanes: Collection[str],
    users: Collection[str],
    under_way: Collection[int],
    limit: int,
) -> list[Due]:
    """The longest due ones, but for those under way, and lanes and users that have enough of them."""
    ready = select(notices).where(
        notices.c.next_at <= micros(now),
        notices.c.lane.not_in(list(lanes)),
        notices.c.user_name.not_in(list(users)),
        notices.c.seq.not_in(list(under_way)),
    )
    rows = conn.execute(ready.order_by(notices.c.next_at, notices.c.seq).limit(limit))
    return [_due(conn, row) for row in rows]


def next_due(conn: Connection, after: datetime) -> datetime | None:
    """The first of those that are not due yet."""
    return maybe_instant(conn.scalar(select(func.min(notices.c.next_at)).where(notices.c.next_at > micros(after))))


def claim(conn: Connection, seq: int, tries: int) -> bool:
    """Whether it is now for the caller to send, and for nobody else. `tries`: as it was read."""
    here = (notices.c.seq == seq, notices.c.state == NotificationState.WAITING.value, notices.c.tries == tries)
    values = {"state": NotificationState.SENDING.value, "tries": tries + 1, "next_at": None}
    return bool(conn.execute(update(notices).where(*here).values(values)).rowcount)


def settle(conn: Connection, result: Result) -> None:
    """Of a try that was the caller's; nothing when somebody else has had another meanwhile."""
    state = NotificationState.SENDING if result.claimed else NotificationState.WAITING
    here = (
        notices.c.seq == result.seq,
        notices.c.state == state.value,
        notices.c.tries == result.tries - (not result.claimed),
    )
    values = {
        "state": result.state.value,
        "tries": result.tries,
        "next_at": maybe_micros(result.next_at),
        "ended_at": None if result.state is NotificationState.WAITING else micros(result.at),
        "error": storable(result.error),
    }
    conn.execute(update(notices).where(*here).values(values))


def leave_unconfirmed(conn: Connection, now: datetime, error: str) -> int:
    """At the start: what was being sent when a server ended may have arrived. How many."""
    sending = update(notices).where(notices.c.state == NotificationState.SENDING.value)
    values = {"state": NotificationState.UNCONFIRMED.value, "ended_at": micros(now), "error": error}
    return conn.execute(sending.values(values)).rowcount


# -- looking, and forgetting


def count_by_state(conn: Connection) -> dict[NotificationState, int]:
    found = dict.fromkeys(NotificationState, 0)
    for row in conn.execute(select(notices.c.state, func.count().label("many")).group_by(notices.c.state)):
        found[NotificationState(row.state)] = row.many
    return found


def list_notifications(conn: Connection, user: str, before: int | None, limit: int) -> list[NotificationRecord]:
    """Newest first."""
    found = select(notices).where(notices.c.user_name == storable(user))
    if before is not None:
        found = found.where(notices.c.seq < before)
    return [_record(conn, row) for row in conn.execute(found.order_by(notices.c.seq.desc()).limit(limit))]


def delete_notifications(conn: Connection, before: datetime, limit: int) -> int:
    """The oldest ones, from before a moment; how many there were."""
    old = select(notices.c.seq).where(notices.c.created_at < micros(before)).order_by(notices.c.created_at).limit(limit)
    return conn.execute(delete(notices).where(notices.c.seq.in_(old))).rowcount


def _due(conn: Connection, row: Row[Any]) -> Due:
    address = address_of(conn, row)
    return Due(row.seq, _notification(row, address or ""), row.lane, row.tries, readable=address is not None)


def _notification(row: Row[Any], address: str) -> NewNotification:
    return NewNotification(
        id=row.id,
        user=row.user_name,
        way=Way(row.way),
        address=address,
        event=NotificationEvent(row.event),
        happening=row.happening,
        job_id=row.job_id,
        subject=row.subject,
        body=json.loads(row.body_json),
        created_at=instant(row.created_at),
    )


def _record(conn: Connection, row: Row[Any]) -> NotificationRecord:
    return NotificationRecord(
        id=row.id,
        seq=row.seq,
        user=row.user_name,
        way=Way(row.way),
        address=address_of(conn, row) or "",
        event=NotificationEvent(row.event),
        job_id=row.job_id,
        subject=row.subject,
        created_at=instant(row.created_at),
        state=NotificationState(row.state),
        tries=row.tries,
        next_at=maybe_instant(row.next_at),
        ended_at=maybe_instant(row.ended_at),
        error=row.error,
    )


def address_of(conn: Connection, row: Row[Any]) -> str | None:
    """None: it is damaged."""
    try:
        return vault_of(conn).unseal(bytes(row.address_sealed), about=_about(row.id)).decode()
    except UserError:
        return None


def _about(id: str) -> str:
    return msg("the notice {id}", id=id)
