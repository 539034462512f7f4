"""Migrations from an empty database make today's tables, on both databases."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from holdfast.core.errors import UserError
from holdfast.store.schema import HEAD, MIGRATIONS
from holdfast.store.tables import metadata
from tests.postgres import Postgres

from .opened import Opened

# Text search is not a table SQLAlchemy knows of.
_SEARCH = ("job_search", "ix_jobs_search")


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_sqlite_tables_are_todays(tmp_path: Path) -> None:
    opened = Opened(f"sqlite:///{tmp_path / 'migrated.db'}")
    migrated = opened.read(_sqlite_schema)
    assert opened.write(_differences) == []
    opened.close()
    engine = create_engine(f"sqlite:///{tmp_path / 'made.db'}")
    metadata.create_all(engine)
    with engine.connect() as conn:
        assert migrated == _sqlite_schema(conn)


def test_postgresql_tables_are_todays(postgres: Postgres) -> None:
    opened = Opened(postgres.url(postgres.new_database()))
    migrated = opened.read(_postgres_schema)
    assert opened.write(_differences) == []
    opened.close()
    url = postgres.url(postgres.new_database()).replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    metadata.create_all(engine)
    with engine.connect() as conn:
        assert migrated == _postgres_schema(conn)
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


def _differences(conn: Connection) -> list[object]:
    context = MigrationContext.configure(conn, opts={"compare_server_default": True, "include_name": _is_ours})
    return compare_metadata(context, metadata)


def _is_ours(name: str | None, kind: str, parents: object) -> bool:
    return not (name or "").startswith(_SEARCH)


def _sqlite_schema(conn: Connection) -> dict[str, str]:
    rows = conn.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    return {
        name: re.sub(r"\s+", " ", sql) for name, sql in rows if _is_ours(name, "", None) and name != "alembic_version"
    }


def _postgres_schema(conn: Connection) -> dict[str, list[tuple[object, ...]]]:
    queries = {
        "columns": "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name"
        " FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'",
        "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        " AND tablename <> 'alembic_version' AND indexname <> 'ix_jobs_search'",
        "constraints": "SELECT conname, pg_get_constraintdef(c.oid) FROM pg_constraint c"
        " JOIN pg_namespace n ON n.oid = c.connamespace"
        " WHERE n.nspname = 'public' AND conrelid <> 'alembic_version'::regclass",
    }
    if not conn.dialect.has_table(conn, "alembic_version"):
        queries["constraints"] = queries["constraints"].split(" AND conrelid")[0]
    return {name: sorted(map(tuple, conn.execute(text(query)))) for name, query in queries.items()}
