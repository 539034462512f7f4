"""Notification recipients of users. Addresses are sealed, and bound to the recipient."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.notifications import Channel, NotificationEvent, Recipient, StoredRecipient, list_event_names

from ..connections import get_vault
from ..rows import from_micros, make_storable, to_json, to_micros
from ..tables import notification_recipients as recipients


def add_recipient(conn: Connection, known: StoredRecipient, most: int) -> None:
    """Add a recipient; UserError if the user already has `most`."""
    of_user = recipients.c.user_name == make_storable(known.user)
    if (conn.scalar(select(func.count()).select_from(recipients).where(of_user)) or 0) >= most:
        raise UserError(
            msg("A user can have at most {limit} notification recipients", limit=most), hint=msg("Remove some first.")
        )
    values = {
        "id": known.id,
        "user_name": make_storable(known.user),
        "way": known.recipient.way.value,
        "address_sealed": get_vault(conn).seal(known.recipient.address.encode(), about=_build_seal_context(known.id)),
        "events_json": to_json(list_event_names(known.recipient.events)),
        "created_at": to_micros(known.created_at),
    }
    conn.execute(insert(recipients), values)


def set_recipient_events(conn: Connection, id: str, events: frozenset[NotificationEvent]) -> bool:
    """Set the events of a recipient; return whether it exists."""
    changed = (
        update(recipients)
        .where(recipients.c.id == make_storable(id))
        .values(events_json=to_json(list_event_names(events)))
    )
    return bool(conn.execute(changed).rowcount)


def remove_recipient(conn: Connection, id: str) -> bool:
    """Remove a recipient; return whether it existed."""
    return bool(conn.execute(delete(recipients).where(recipients.c.id == make_storable(id))).rowcount)


def list_recipients(conn: Connection, user: str) -> list[StoredRecipient]:
    """Return recipients in the order they were added. A damaged address is empty."""
    of_user = select(recipients).where(recipients.c.user_name == make_storable(user))
    rows = conn.execute(of_user.order_by(recipients.c.created_at, recipients.c.id))
    return [_recipient_from_row(conn, row) for row in rows]


def load_users_with_recipients(conn: Connection) -> set[str]:
    return set(conn.execute(select(recipients.c.user_name).distinct()).scalars())


def _recipient_from_row(conn: Connection, row: Row[Any]) -> StoredRecipient:
    events = frozenset(NotificationEvent(event) for event in json.loads(row.events_json))
    return StoredRecipient(
        id=row.id,
        user=row.user_name,
        recipient=Recipient(way=Channel(row.way), address=_unseal_address(conn, row), events=events),
        created_at=from_micros(row.created_at),
    )


def _unseal_address(conn: Connection, row: Row[Any]) -> str:
    try:
        return get_vault(conn).unseal(bytes(row.address_sealed), about=_build_seal_context(row.id)).decode()
    except UserError:
        return ""


def _build_seal_context(id: str) -> str:
    return f"the recipient {id}"  # never change it: stored addresses are bound to this text
