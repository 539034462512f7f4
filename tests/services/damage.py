"""Addresses that are damaged in the database, as a disk might do it."""

from __future__ import annotations

from sqlalchemy import Table, update

from .house import House


async def damage(house: House, table: Table, id: str) -> None:
    spoilt = update(table).where(table.c.id == id).values(address_sealed=b"\x01" + bytes(40))
    await house.store.write(lambda conn: conn.execute(spoilt))
