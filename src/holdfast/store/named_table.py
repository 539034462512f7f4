"""Tables of objects with unique names, and the grants of such objects to groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection, Row, Table, delete, insert, select, update

from holdfast.core.errors import Conflict, NotFound

from .grants import Grants
from .mapping import record_from_row, record_to_row
from .rows import make_storable
from .seeding import claim_seeding


class NamedTable:
    def __init__(self, table: Table, in_use: Callable[[str], str], not_found: Callable[[str], NotFound]) -> None:
        """`in_use` builds the message for a name that exists, `not_found` the error for one that does not."""
        self._table = table
        self._in_use = in_use
        self._not_found = not_found

    def find_row(self, conn: Connection, name: str) -> Row[Any] | None:
        return conn.execute(select(self._table).where(self._table.c.name == make_storable(name))).one_or_none()

    def list_rows(self, conn: Connection) -> Sequence[Row[Any]]:
        """Return all rows, sorted by name."""
        return conn.execute(select(self._table).order_by(self._table.c.name)).all()

    def check_name_unused(self, conn: Connection, name: str) -> None:
        if self.find_row(conn, name) is not None:
            raise Conflict(self._in_use(name), field="name")

    def insert_row(self, conn: Connection, values: dict[str, Any]) -> None:
        conn.execute(insert(self._table), values)

    def update_row(self, conn: Connection, name: str, values: dict[str, Any]) -> None:
        """Update columns other than the name; NotFound if the object does not exist."""
        changed = {column: value for column, value in values.items() if column != "name"}
        here = self._table.c.name == make_storable(name)
        if changed and not conn.execute(update(self._table).where(here).values(changed)).rowcount:
            raise self._not_found(name)

    def delete_row(self, conn: Connection, name: str) -> None:
        if not conn.execute(delete(self._table).where(self._table.c.name == make_storable(name))).rowcount:
            raise self._not_found(name)


class GrantedRecord(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def groups(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=GrantedRecord)


class Catalogue(NamedTable, Generic[R]):
    """Records of one type, with their grants to groups."""

    def __init__(
        self,
        kind: type[R],
        table: Table,
        grants: Grants,
        in_use: Callable[[str], str],
        not_found: Callable[[str], NotFound],
        validate: Callable[[Connection, R], None] = lambda conn, record: None,
    ) -> None:
        """`validate` raises an error if the record refers to an object that does not exist."""
        super().__init__(table, in_use, not_found)
        self._kind = kind
        self._grants = grants
        self._validate = validate

    def create(self, conn: Connection, record: R) -> None:
        """Create a record and its grants; Conflict if the name is in use, NotFound if a reference is missing."""
        self.check_name_unused(conn, record.name)
        self._validate(conn, record)
        self.insert_row(conn, record_to_row(record, self._table))
        self._grants.replace_granted_groups(conn, record.name, record.groups)

    def seed(self, conn: Connection, records: Iterable[R]) -> None:
        """Insert default records at the first start only."""
        if claim_seeding(conn, self._table):
            for record in records:
                self.create(conn, record)

    def get(self, conn: Connection, name: str) -> R | None:
        row = self.find_row(conn, name)
        if row is None:
            return None
        return record_from_row(self._kind, row, groups=self._grants.list_granted_groups(conn, row.name))

    def list_records(self, conn: Connection) -> list[R]:
        """Return all records, sorted by name."""
        granted = self._grants.load_groups_by_name(conn)
        rows = self.list_rows(conn)
        return [record_from_row(self._kind, row, groups=tuple(granted.get(row.name, ()))) for row in rows]

    def update(self, conn: Connection, record: R) -> None:
        """Update a record and its grants."""
        self._validate(conn, record)
        self.update_row(conn, record.name, record_to_row(record, self._table))
        self._grants.replace_granted_groups(conn, record.name, record.groups)
