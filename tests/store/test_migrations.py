"""Migrations from an empty database create the same as today's tables, on both databases."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from holdfast.core.errors import UserError
from holdfast.store.connections import create_database_engine, parse_database_url
from holdfast.store.schema import HEAD_REVISION, MIGRATIONS_FOLDER, migrate_database, read_schema_version
from holdfast.store.tables import metadata
from tests.postgres import Postgres

from .open_store import VAULT, Opened

Schema = TypeVar("Schema")

# Text search is not a table SQLAlchemy knows of.
_SEARCH = ("job_search", "ix_jobs_search")


def test_head_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(_config()).get_heads() == [HEAD_REVISION]


def test_sqlite_tables_are_todays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'migrated.db'}"
    migrated = _migrate_from_empty(url, _sqlite_schema)
    assert migrated == _create(f"sqlite:///{tmp_path / 'created.db'}", _sqlite_schema)
    assert {"jobs", "job_search", "job_search_terms", "alembic_version"} <= migrated.keys()


def test_postgresql_tables_are_todays(postgres: Postgres) -> None:
    migrated = _migrate_from_empty(postgres.url(postgres.new_database()), _postgres_schema)
    created = _create(postgres.url(postgres.new_database()), _postgres_schema)
    assert migrated == created
    assert {row[0] for row in migrated["columns"]} >= {"jobs", "alembic_version"}


def test_a_created_database_needs_no_migration(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    _create(url, _sqlite_schema)
    engine = create_database_engine(parse_database_url(url), VAULT, read_only=False)
    with engine.connect() as conn:
        assert read_schema_version(conn) == HEAD_REVISION
    migrate_database(engine)
    engine.dispose()


def test_an_interrupted_migration_leaves_nothing(tmp_path: Path) -> None:
    """SQLite would keep tables made before a crash, were they not made in one transaction."""
    path = tmp_path / "holdfast.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE tokens (other TEXT)")  # someone else's; ours comes late
    with pytest.raises(UserError, match="Cannot open the database"):
        Opened(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("tokens",)]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    return config


def _migrate_from_empty(url: str, read_schema: Callable[[Connection], Schema]) -> Schema:
    """By every migration in turn, whose tables are those that SQLAlchemy knows of."""
    engine = create_database_engine(parse_database_url(url), VAULT, read_only=False)
    config = _config()
    with engine.begin() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
    with engine.connect() as conn:
        assert _differences(conn) == []
        found = read_schema(conn)
    engine.dispose()
    return found


def _create(url: str, read_schema: Callable[[Connection], Schema]) -> Schema:
    opened = Opened(url)
    found = opened.read(read_schema)
    opened.close()
    return found


def _differences(conn: Connection) -> list[object]:
    context = MigrationContext.configure(conn, opts={"compare_server_default": True, "include_name": _is_ours})
    return compare_metadata(context, metadata)


def _is_ours(name: str | None, kind: str, parents: object) -> bool:
    return not (name or "").startswith(_SEARCH)


def _sqlite_schema(conn: Connection) -> dict[str, str]:
    rows = conn.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    return {name: re.sub(r"\s+", "", sql) for name, sql in rows}


def _postgres_schema(conn: Connection) -> dict[str, list[tuple[object, ...]]]:
    queries = {
        "columns": "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name"
        " FROM information_schema.columns WHERE table_schema = 'public'",
        "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "constraints": "SELECT conname, pg_get_constraintdef(c.oid) FROM pg_constraint c"
        " JOIN pg_namespace n ON n.oid = c.connamespace WHERE n.nspname = 'public'",
    }
    return {name: sorted(map(tuple, conn.execute(text(query)))) for name, query in queries.items()}
