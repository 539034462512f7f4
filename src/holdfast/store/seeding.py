"""Default rows that are inserted once, at the first start; admins can change them afterwards."""

from __future__ import annotations

from sqlalchemy import Connection, Table, insert, select

from .tables import meta


def claim_seeding(conn: Connection, table: Table) -> bool:
    """Return whether defaults must be inserted: never seeded before, and the table is empty.

    Marks the table as seeded, so that rows that are removed later stay removed.
    """
    key = f"seeded:{table.name}"
    if conn.scalar(select(meta.c.value).where(meta.c.key == key)) is not None:
        return False
    conn.execute(insert(meta), {"key": key, "value": "yes"})
    return conn.execute(select(table).limit(1)).first() is None
