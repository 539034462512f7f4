"""Statements for both databases, with {} for each value, passed to the driver directly: they are too many and too long
for SQLAlchemy's statement cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, TextClause, text

from .rows import make_storable, to_json

MAX_INT = 2**63 - 1  # largest integer of both databases


def build_upsert(table: Table, *, without: Sequence[str] = ()) -> TextClause:
    """Build an insert that replaces the row with the same primary key; each value has the name of its column."""
    columns = [column.name for column in table.c if column.name not in without]
    key = [column.name for column in table.primary_key]
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return text(
        f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES (:{', :'.join(columns)})"  # noqa: S608
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
    )


def format_placeholders(conn: Connection, sql: str) -> str:
    """Replace each {} by the placeholder of this database's driver."""
    return sql.replace("{}", "?" if conn.dialect.name == "sqlite" else "%s")


def build_any_of_condition(conn: Connection, column: str) -> str:
    """Build a condition that takes a list as one value."""
    if conn.dialect.name == "sqlite":
        return f"{column} IN (SELECT value FROM json_each({{}}))"  # noqa: S608
    return f"{column} = ANY({{}})"


def to_list_value(conn: Connection, values: Sequence[Any]) -> Any:
    return to_json(list(values)) if conn.dialect.name == "sqlite" else list(values)


def get_position_function(conn: Connection) -> str:
    """Return the SQL function that finds a text in another one: its position from 1, or 0."""
    return "instr" if conn.dialect.name == "sqlite" else "strpos"


def list_distinct_storable_values(values: Sequence[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if make_storable(value) == value]
