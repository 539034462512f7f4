"""Migrates a database to the current schema. Alembic uses much memory, so it is loaded only for an older schema."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, exc, text

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from .tables import metadata

HEAD_REVISION = "0010"  # the newest migration; a test checks it
MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"

_CREATE_SEARCH_TABLE = text(
    "CREATE VIRTUAL TABLE job_search USING fts5("
    "text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1')"
)
_CREATE_SEARCH_TERMS = text("CREATE VIRTUAL TABLE job_search_terms USING fts5vocab(job_search, row)")
_CREATE_VERSION_TABLE = text(
    "CREATE TABLE alembic_version"
    " (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_INSERT_VERSION = text("INSERT INTO alembic_version (version_num) VALUES (:version)")


def read_schema_version(conn: Connection) -> str | None:
    """Return the schema version; None for an empty database."""
    if conn.dialect.name == "postgresql" and conn.scalar(text("SHOW server_encoding")) != "UTF8":
        raise UserError(
            msg("The encoding of the PostgreSQL database is not UTF-8"),
            hint=msg("Create the database with ENCODING 'UTF8'."),
        )
    if not conn.dialect.has_table(conn, "alembic_version"):
        return None
    version: str | None = conn.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def migrate_database(engine: Engine) -> None:
    """Create the tables or run all missing migrations, in one transaction."""
    with engine.begin() as conn:
        if read_schema_version(conn) is None:
            create_tables(conn)
        else:
            _run_migrations(conn)


def create_tables(conn: Connection) -> None:
    """Create the current schema in an empty database; a test compares it with the migrations."""
    metadata.create_all(conn, checkfirst=False)
    _create_search_index(conn)
    conn.execute(_CREATE_VERSION_TABLE)
    conn.execute(_INSERT_VERSION, {"version": HEAD_REVISION})


def _create_search_index(conn: Connection) -> None:
    """Create the index for text search in names and ids."""
    if conn.dialect.name == "sqlite":
        conn.execute(_CREATE_SEARCH_TABLE)
        conn.execute(_CREATE_SEARCH_TERMS)
        return
    try:
        with conn.begin_nested():
            conn.execute(text("CREATE EXTENSION IF NOT EXISTS pg_trgm"))
    except exc.DBAPIError:  # not installed, or no permission: search reads the table instead
        return
    conn.execute(text("CREATE INDEX ix_jobs_search ON jobs USING gin (search gin_trgm_ops)"))


def _run_migrations(conn: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = conn
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise _build_newer_release_error(str(error)) from error


def _build_newer_release_error(detail: str) -> UserError:
    return UserError(
        msg("The database was written by a newer Holdfast release ({detail})", detail=detail),
        hint=msg("Start the release that wrote the database, or a newer release."),
    )
