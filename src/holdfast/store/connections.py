"""Database addresses and connections: what each kind of database is told when it is opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, exc, make_url

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from .vault import Vault

OLDEST_SQLITE = (3, 35, 0)  # RETURNING, and the trigram tokenizer

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # an acknowledged write survives a power cut
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)
_WRITER_CACHE = "PRAGMA cache_size = -16384"  # KiB
_READER = ("PRAGMA query_only = ON", "PRAGMA cache_size = -8192")


def parse_url(text: str) -> URL:
    """The address, with the driver we use; UserError when it is none of ours."""
    try:
        url = make_url(text)
    except exc.ArgumentError:
        raise UserError(msg("This is no database address"), field="store.url", hint=_URL_HINT) from None
    kind = url.drivername.split("+")[0]
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise UserError(msg("SQLite needs a plain file path"), field="store.url", hint=_URL_HINT)
        return url.set(drivername="sqlite")
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise UserError(msg("Databases of kind {kind} are not supported", kind=kind), field="store.url", hint=_URL_HINT)


_URL_HINT = msg("Write sqlite:////path/to/file.db or postgresql://user:password@host/database.")


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def sqlite_path(url: URL) -> Path:
    assert url.database is not None
    return Path(url.database)


def make_engine(url: URL, vault: Vault, *, read_only: bool) -> Engine:
    """Connections come from here one by one and are kept by the thread that uses them, so nothing is pooled."""
    if is_sqlite(url):
        return _sqlite_engine(url, vault, read_only)
    return _postgres_engine(url, vault, read_only)


def vault_of(conn: Connection) -> Vault:
    vault: Vault = conn.info["vault"]
    return vault


def _sqlite_engine(url: URL, vault: Vault, read_only: bool) -> Engine:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise UserError(
            msg(
                "SQLite {sqlite_version} is too old: {oldest} or newer is needed",
                sqlite_version=sqlite3.sqlite_version,
                oldest=oldest,
            )
        )
    # isolation_level None: the driver begins nothing by itself, we say BEGIN below.
    arguments = {"isolation_level": None, "check_same_thread": False, "timeout": 10.0}
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def tune(connection: sqlite3.Connection, record: Any) -> None:
        for pragma in (*_PRAGMAS, *(_READER if read_only else (_WRITER_CACHE,))):
            connection.execute(pragma)
        record.info["vault"] = vault

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        # A writer takes the write lock at once: taking it later can fail half-way through.
        conn.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _postgres_engine(url: URL, vault: Vault, read_only: bool) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise UserError(
            msg("The PostgreSQL driver cannot be loaded: {error}", error=error), hint="pip install 'holdfast[postgres]'"
        ) from error
    # A server that went away without a word is noticed within these times.
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
    def tune(connection: Any, record: Any) -> None:
        connection.read_only = read_only
        record.info["vault"] = vault

    return engine
