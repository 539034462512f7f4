"""Grants of a named object to groups: a table of two columns, the object's name and the group's."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Table, delete, insert, select

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from .rows import make_storable
from .tables import groups


class Grants:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._name, self._group = table.c

    def list_granted_groups(self, conn: Connection, name: str) -> tuple[str, ...]:
        """Return the granted groups, sorted by name."""
        return tuple(sorted(conn.scalars(select(self._group).where(self._name == name))))

    def load_groups_by_name(self, conn: Connection) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, group in conn.execute(select(self._table).order_by(self._group)):
            found.setdefault(name, []).append(group)
        return found

    def grant(self, conn: Connection, name: str, group: str) -> None:
        """Grant an object to a group. Idempotent; NotFound if the group does not exist."""
        if conn.scalar(select(groups.c.name).where(groups.c.name == make_storable(group))) is None:
            raise _build_group_not_found_error(group)
        self.revoke(conn, name, group)
        conn.execute(insert(self._table), {self._name.name: name, self._group.name: group})

    def revoke(self, conn: Connection, name: str, group: str) -> bool:
        """Revoke a grant; return whether it existed."""
        here = (self._name == make_storable(name)) & (self._group == make_storable(group))
        return bool(conn.execute(delete(self._table).where(here)).rowcount)

    def replace_granted_groups(self, conn: Connection, name: str, wanted: Iterable[str]) -> None:
        """Replace all grants of an object; NotFound if a group does not exist."""
        conn.execute(delete(self._table).where(self._name == name))
        asked = sorted({make_storable(group) for group in wanted})
        if not asked:
            return
        known = set(conn.scalars(select(groups.c.name).where(groups.c.name.in_(asked))))
        for group in asked:
            if group not in known:
                raise _build_group_not_found_error(group)
        conn.execute(insert(self._table), [{self._name.name: name, self._group.name: group} for group in asked])


def _build_group_not_found_error(name: str) -> NotFound:
    return NotFound(msg("Group {name} not found", name=name[:100]), field="groups")
