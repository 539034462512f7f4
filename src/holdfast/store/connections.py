"""Database URLs and connections, with the settings of each database type."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, exc, make_url

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from .vault import Vault

MIN_SQLITE_VERSION = (3, 35, 0)  # RETURNING, and the trigram tokenizer

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # an acknowledged write survives a power cut
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)
_WRITER_CACHE_PRAGMA = "PRAGMA cache_size = -16384"  # KiB
_READER_PRAGMAS = ("PRAGMA query_only = ON", "PRAGMA cache_size = -8192")


def parse_database_url(text: str) -> URL:
    """Parse a database URL and set its driver; raise UserError when it is not supported."""
    try:
        url = make_url(text)
    except exc.ArgumentError:
        raise UserError(msg("Invalid database URL"), field="store.url", hint=_URL_HINT) from None
    kind = url.drivername.split("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise UserError(
                msg("SQLite requires a file path; `:memory:` and `file:` URLs are not supported"),
                field="store.url",
                hint=_URL_HINT,
            )
        return url.set(drivername="sqlite")
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise UserError(msg("Database type {kind} is not supported", kind=kind), field="store.url", hint=_URL_HINT)


_URL_HINT = msg("Use sqlite:////path/to/file.db or postgresql://user:password@host/database.")


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def get_sqlite_path(url: URL) -> Path:
    assert url.database is not None
    return Path(url.database)


def create_database_engine(url: URL, vault: Vault, *, read_only: bool) -> Engine:
    """Create an engine without a pool: each thread keeps its own connection."""
    if is_sqlite(url):
        return _create_sqlite_engine(url, vault, read_only)
    return _create_postgres_engine(url, vault, read_only)


def get_vault(conn: Connection) -> Vault:
    vault: Vault = conn.info["vault"]
    return vault


def _create_sqlite_engine(url: URL, vault: Vault, read_only: bool) -> Engine:
    if sqlite3.sqlite_version_info < MIN_SQLITE_VERSION:
        oldest = ".".join(map(str, MIN_SQLITE_VERSION))
        raise UserError(
            msg(
                "SQLite {sqlite_version} is not supported; version {oldest} or newer is required",
                sqlite_version=sqlite3.sqlite_version,
                oldest=oldest,
            )
        )
    # isolation_level None: the driver does not begin transactions; BEGIN is sent below.
    arguments = {"isolation_level": None, "check_same_thread": False, "timeout": 10.0}
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: sqlite3.Connection, record: Any) -> None:
        for pragma in (*_PRAGMAS, *(_READER_PRAGMAS if read_only else (_WRITER_CACHE_PRAGMA,))):
            connection.execute(pragma)
        record.info["vault"] = vault

    @event.listens_for(engine, "begin")
    def begin_transaction(conn: Connection) -> None:
        # A writer acquires the write lock at once: acquiring it later can fail half-way through.
        conn.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _create_postgres_engine(url: URL, vault: Vault, read_only: bool) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise UserError(
            msg("Cannot load the PostgreSQL driver: {error}", error=error), hint="pip install 'holdfast[postgres]'"
        ) from error
    # Limits how long it takes to detect a server that disappeared without closing its connections.
    arguments = {"connect_timeout": 10, "tcp_user_timeout": 20_000, "keepalives_idle": 10, "keepalives_interval": 5}
    arguments = {name: value for name, value in arguments.items() if name not in url.query}
    engine = create_engine(
        url.update_query_dict({"application_name": "holdfast"}),
        poolclass=NullPool,
        hide_parameters=True,
        connect_args=arguments,
        isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED",
    )

    @event.listens_for(engine, "connect")
    def set_session_options(connection: Any, record: Any) -> None:
        connection.read_only = read_only
        record.info["vault"] = vault

    return engine
