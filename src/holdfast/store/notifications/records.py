"""Notifications and the results of their delivery attempts.

A sender claims a notification by an atomic write, after it has connected and before it sends anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.core.errors import UserError
from holdfast.core.notifications import (
    Channel,
    NotificationEvent,
    NotificationRecord,
    NotificationState,
    get_delivery_lane,
)

from ..connections import get_vault
from ..mapping import record_from_row, record_to_row
from ..rows import from_optional_micros, make_storable, to_micros, to_optional_micros
from ..tables import notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    id: str
    user: str
    way: Channel
    address: str
    event: NotificationEvent
    happening: str  # the same in all notifications of one event
    job_id: str | None
    subject: str
    body: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DueNotification:
    """A notification to send."""

    seq: int
    notification: NewNotification
    lane: str
    tries: int  # so far
    readable: bool = True  # False: the address cannot be decrypted and is empty


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOutcome:
    """The result of a delivery attempt."""

    seq: int
    tries: int  # including this one
    claimed: bool  # the attempt claimed it for sending
    state: NotificationState
    at: datetime
    error: str = ""
    next_at: datetime | None = None


def insert_notification(
    conn: Connection,
    notification: NewNotification,
    state: NotificationState = NotificationState.WAITING,
    *,
    due_at: datetime | None = None,
) -> int:
    """Insert a notification, to be sent at `due_at` or at once."""
    waits = state is NotificationState.WAITING
    address = notification.address
    values = record_to_row(
        notification,
        notifications,
        lane=make_storable(get_delivery_lane(notification.way, address)),
        address_sealed=get_vault(conn).seal(address.encode(), about=_build_seal_context(notification.id)),
        state=state.value,
        tries=0 if waits else 1,
        next_at=to_micros(due_at or notification.created_at) if waits else None,
        error="",
    )
    seq: int = conn.execute(insert(notifications).returning(notifications.c.seq), values).scalar_one()
    return seq


# -- sending


def list_due_notifications(
    conn: Connection,
    now: datetime,
    *,
    lanes: Collection[str],
    users: Collection[str],
    under_way: Collection[int],
    limit: int,
) -> list[DueNotification]:
    """Return the longest due notifications, except those in progress and those of these lanes and users."""
    ready = select(notifications).where(
        notifications.c.next_at <= to_micros(now),
        notifications.c.lane.not_in(list(lanes)),
        notifications.c.user_name.not_in(list(users)),
        notifications.c.seq.not_in(list(under_way)),
    )
    rows = conn.execute(ready.order_by(notifications.c.next_at, notifications.c.seq).limit(limit))
    return [_due_notification_from_row(conn, row) for row in rows]


def find_next_due_time(conn: Connection, after: datetime) -> datetime | None:
    return from_optional_micros(
        conn.scalar(select(func.min(notifications.c.next_at)).where(notifications.c.next_at > to_micros(after)))
    )


def claim_notification(conn: Connection, seq: int, tries: int) -> bool:
    """Claim a notification for sending; return whether the caller got it. `tries`: as it was read."""
    here = (
        notifications.c.seq == seq,
        notifications.c.state == NotificationState.WAITING.value,
        notifications.c.tries == tries,
    )
    values = {"state": NotificationState.SENDING.value, "tries": tries + 1, "next_at": None}
    return bool(conn.execute(update(notifications).where(*here).values(values)).rowcount)


def record_delivery(conn: Connection, result: DeliveryOutcome) -> None:
    """Record the result of the caller's attempt, unless a later attempt has begun."""
    state = NotificationState.SENDING if result.claimed else NotificationState.WAITING
    here = (
        notifications.c.seq == result.seq,
        notifications.c.state == state.value,
        notifications.c.tries == result.tries - (not result.claimed),
    )
    values = {
        "state": result.state.value,
        "tries": result.tries,
        "next_at": to_optional_micros(result.next_at),
        "ended_at": None if result.state is NotificationState.WAITING else to_micros(result.at),
        "error": make_storable(result.error),
    }
    conn.execute(update(notifications).where(*here).values(values))


def mark_interrupted_notifications(conn: Connection, now: datetime, error: str) -> int:
    """At startup, mark notifications whose sending was interrupted: they may have arrived. Return how many."""
    sending = update(notifications).where(notifications.c.state == NotificationState.SENDING.value)
    values = {"state": NotificationState.UNCONFIRMED.value, "ended_at": to_micros(now), "error": error}
    return conn.execute(sending.values(values)).rowcount


# -- listing and deleting


def count_notifications_by_state(conn: Connection) -> dict[NotificationState, int]:
    found = dict.fromkeys(NotificationState, 0)
    for row in conn.execute(select(notifications.c.state, func.count().label("many")).group_by(notifications.c.state)):
        found[NotificationState(row.state)] = row.many
    return found


def list_notifications(conn: Connection, user: str, before: int | None, limit: int) -> list[NotificationRecord]:
    """Return a user's notifications, newest first."""
    found = select(notifications).where(notifications.c.user_name == make_storable(user))
    if before is not None:
        found = found.where(notifications.c.seq < before)
    return [
        _notification_record_from_row(conn, row)
        for row in conn.execute(found.order_by(notifications.c.seq.desc()).limit(limit))
    ]


def delete_notifications(conn: Connection, before: datetime, limit: int) -> int:
    """Delete the oldest notifications created before a time; return how many."""
    old = (
        select(notifications.c.seq)
        .where(notifications.c.created_at < to_micros(before))
        .order_by(notifications.c.created_at)
        .limit(limit)
    )
    return conn.execute(delete(notifications).where(notifications.c.seq.in_(old))).rowcount


def _due_notification_from_row(conn: Connection, row: Row[Any]) -> DueNotification:
    address = unseal_notification_address(conn, row)
    notification = record_from_row(NewNotification, row, address=address or "")
    return DueNotification(row.seq, notification, row.lane, row.tries, readable=address is not None)


def _notification_record_from_row(conn: Connection, row: Row[Any]) -> NotificationRecord:
    return record_from_row(NotificationRecord, row, address=unseal_notification_address(conn, row) or "")


def unseal_notification_address(conn: Connection, row: Row[Any]) -> str | None:
    """Return the address; None if it cannot be decrypted."""
    try:
        return get_vault(conn).unseal(bytes(row.address_sealed), about=_build_seal_context(row.id)).decode()
    except UserError:
        return None


def _build_seal_context(id: str) -> str:
    return f"the notice {id}"  # never change it: stored addresses are bound to this text
