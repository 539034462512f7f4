"""What is put into a table once, at the first start, and is the admin's from then on."""

from __future__ import annotations

from sqlalchemy import Connection, Table, insert, select

from .tables import meta


def due(conn: Connection, table: Table) -> bool:
    """Whether it is the first start: nothing was put in before, and nothing is there.

    It counts as put in from now on, also if it is nothing: what is removed later stays removed.
    """
    key = f"seeded:{table.name}"
    if conn.scalar(select(meta.c.value).where(meta.c.key == key)) is not None:
        return False
    conn.execute(insert(meta), {"key": key, "value": "yes"})
    return conn.execute(select(table).limit(1)).first() is None
