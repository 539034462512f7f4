"""Which groups a named thing is for: a table of two columns, its name and a group's."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Table, delete, insert, select

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from .rows import storable
from .tables import groups


class Grants:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._name, self._group = table.c

    def of(self, conn: Connection, name: str) -> tuple[str, ...]:
        """By group."""
        return tuple(sorted(conn.scalars(select(self._group).where(self._name == name))))

    def all(self, conn: Connection) -> dict[str, list[str]]:
        """Name -> groups."""
        found: dict[str, list[str]] = {}
        for name, group in conn.execute(select(self._table).order_by(self._group)):
            found.setdefault(name, []).append(group)
        return found

    def grant(self, conn: Connection, name: str, group: str) -> None:
        """Harmless when it was granted before; NotFound when there is no such group."""
        if conn.scalar(select(groups.c.name).where(groups.c.name == storable(group))) is None:
            raise _no_group(group)
        self.revoke(conn, name, group)
        conn.execute(insert(self._table), {self._name.name: name, self._group.name: group})

    def revoke(self, conn: Connection, name: str, group: str) -> bool:
        """Whether there was anything to take back."""
        here = (self._name == storable(name)) & (self._group == storable(group))
        return bool(conn.execute(delete(self._table).where(here)).rowcount)

    def set(self, conn: Connection, name: str, wanted: Iterable[str]) -> None:
        """For these groups and no others; NotFound when one of them is not there."""
        conn.execute(delete(self._table).where(self._name == name))
        asked = sorted({storable(group) for group in wanted})
        if not asked:
            return
        known = set(conn.scalars(select(groups.c.name).where(groups.c.name.in_(asked))))
        for group in asked:
            if group not in known:
                raise _no_group(group)
        conn.execute(insert(self._table), [{self._name.name: name, self._group.name: group} for group in asked])


def _no_group(name: str) -> NotFound:
    return NotFound(msg("There is no group {name}", name=name[:100]), field="groups")
