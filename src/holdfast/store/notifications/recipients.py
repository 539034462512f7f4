"""Where users want to be told of what. Addresses are sealed, and bound to the recipient."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.notifications import KnownRecipient, NotificationEvent, Recipient, Way, in_order

from ..connections import vault_of
from ..rows import instant, micros, storable, to_json
from ..tables import notice_recipients as recipients


def add_recipient(conn: Connection, known: KnownRecipient, most: int) -> None:
    """UserError when the user has so many already."""
    of_user = recipients.c.user_name == storable(known.user)
    if (conn.scalar(select(func.count()).select_from(recipients).where(of_user)) or 0) >= most:
        raise UserError(
            msg("A user has at most {most} recipients of notifications", most=most), hint=msg("Remove some first.")
        )
    values = {
        "id": known.id,
        "user_name": storable(known.user),
        "way": known.recipient.way.value,
        "address_sealed": vault_of(conn).seal(known.recipient.address.encode(), about=_about(known.id)),
        "events_json": to_json(in_order(known.recipient.events)),
        "created_at": micros(known.created_at),
    }
    conn.execute(insert(recipients), values)


def set_events(conn: Connection, id: str, events: frozenset[NotificationEvent]) -> bool:
    """Whether it is there."""
    changed = update(recipients).where(recipients.c.id == storable(id)).values(events_json=to_json(in_order(events)))
    return bool(conn.execute(changed).rowcount)


def remove_recipient(conn: Connection, id: str) -> bool:
    """Whether it was there."""
    return bool(conn.execute(delete(recipients).where(recipients.c.id == storable(id))).rowcount)


def list_recipients(conn: Connection, user: str) -> list[KnownRecipient]:
    """In the order they were added. One whose address is damaged has none."""
    of_user = select(recipients).where(recipients.c.user_name == storable(user))
    rows = conn.execute(of_user.order_by(recipients.c.created_at, recipients.c.id))
    return [_known(conn, row) for row in rows]


def users_with_recipients(conn: Connection) -> set[str]:
    return set(conn.execute(select(recipients.c.user_name).distinct()).scalars())


def _known(conn: Connection, row: Row[Any]) -> KnownRecipient:
    events = frozenset(NotificationEvent(event) for event in json.loads(row.events_json))
    return KnownRecipient(
        id=row.id,
        user=row.user_name,
        recipient=Recipient(way=Way(row.way), address=_address(conn, row), events=events),
        created_at=instant(row.created_at),
    )


def _address(conn: Connection, row: Row[Any]) -> str:
    try:
        return vault_of(conn).unseal(bytes(row.address_sealed), about=_about(row.id)).decode()
    except UserError:
        return ""


def _about(id: str) -> str:
    return msg("the recipient {id}", id=id)
