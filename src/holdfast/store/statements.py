"""Statements for both databases, put together with {} for each value and given straight to the driver: such statements
are too many and too long to be worth compiling and remembering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from .rows import storable, to_json

MAX_INT = 2**63 - 1  # whole number that both databases take


def marked(conn: Connection, sql: str) -> str:
    """With the mark for a value that this database's driver wants."""
    return sql.replace("{}", "?" if conn.dialect.name == "sqlite" else "%s")


def any_of(conn: Connection, column: str) -> str:
    """A whole list is one value."""
    if conn.dialect.name == "sqlite":
        return f"{column} IN (SELECT value FROM json_each({{}}))"  # noqa: S608
    return f"{column} = ANY({{}})"


def list_value(conn: Connection, values: Sequence[Any]) -> Any:
    return to_json(list(values)) if conn.dialect.name == "sqlite" else list(values)


def position(conn: Connection) -> str:
    """The function that says where in a text another one begins, from 1; 0: nowhere."""
    return "instr" if conn.dialect.name == "sqlite" else "strpos"


def distinct_storable(values: Sequence[str]) -> list[str]:
    """Without those that no row can have."""
    return [value for value in dict.fromkeys(values) if storable(value) == value]
