"""Brings a database to the present tables. Alembic, a tenth of a server's memory, is loaded only for an older one."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, exc, text

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from .tables import metadata

HEAD = "0007"  # the newest migration; a test keeps it true
MIGRATIONS = Path(__file__).parent / "migrations"

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


def current_version(conn: Connection) -> str | None:
    """None for an empty database."""
    if conn.dialect.name == "postgresql" and conn.scalar(text("SHOW server_encoding")) != "UTF8":
        raise UserError(
            msg("The PostgreSQL database does not store UTF-8"), hint=msg("Create it with ENCODING 'UTF8'.")
        )
    if not conn.dialect.has_table(conn, "alembic_version"):
        return None
    version: str | None = conn.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def migrate(engine: Engine) -> None:
    """Create the tables or run all missing migrations, in one transaction: a crash half-way leaves the database as it
    was."""
    with engine.begin() as conn:
        if current_version(conn) is None:
            create_tables(conn)
        else:
            _run_migrations(conn)


def create_tables(conn: Connection) -> None:
    """Create in an empty database what all migrations together would; a test compares the two."""
    metadata.create_all(conn, checkfirst=False)
    _create_search(conn)
    conn.execute(_CREATE_VERSION_TABLE)
    conn.execute(_INSERT_VERSION, {"version": HEAD})


def _create_search(conn: Connection) -> None:
    """Create what finds parts of names and ids among a million jobs."""
    if conn.dialect.name == "sqlite":
        conn.execute(_CREATE_SEARCH_TABLE)
        conn.execute(_CREATE_SEARCH_TERMS)
        return
    try:
        with conn.begin_nested():
            conn.execute(text("CREATE EXTENSION IF NOT EXISTS pg_trgm"))
    except exc.DBAPIError:  # not installed, or not ours to create: search reads the table instead
        return
    conn.execute(text("CREATE INDEX ix_jobs_search ON jobs USING gin (search gin_trgm_ops)"))


def _run_migrations(conn: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = conn
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise _too_new(str(error)) from error


def _too_new(detail: str) -> UserError:
    return UserError(
        msg("The database was written by another release of Holdfast ({detail})", detail=detail),
        hint=msg("Start the release that wrote it, or a newer one."),
    )
