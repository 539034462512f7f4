"""The file of the metrics database: its tables, opening it, and replacing a damaged one."""

from __future__ import annotations

import os
import sqlite3
import struct
from pathlib import Path

SCHEMA_VERSION = 1
LOCK_TIMEOUT = 10.0  # seconds; only another program, such as the sqlite3 command, could hold the lock
DAMAGED_SUFFIX = ".damaged"
# The last two mean a damaged index or table description, because our statements are always valid.
_DAMAGE_CODES = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR}
)
# Raised when a row does not contain what was written.
_ROW_ERRORS = (ValueError, TypeError, KeyError, AttributeError, struct.error)

_PRAGMAS = (
    "PRAGMA page_size = 1024",  # a round changes a row or two per task: small pages make a small write-ahead log
    "PRAGMA auto_vacuum = INCREMENTAL",  # so that pruning can shrink the file
    "PRAGMA journal_mode = WAL",
    # Syncs only at a checkpoint, about once a minute. A power cut loses the last minute; with OFF, possibly everything.
    "PRAGMA synchronous = NORMAL",
    "PRAGMA wal_autocheckpoint = 1024",  # pages
    "PRAGMA journal_size_limit = 4194304",  # bytes
    "PRAGMA cache_size = -4096",  # KiB
)

_SCHEMA = Path(__file__).with_name("schema.sql").read_text()


def open_metrics_file(path: Path) -> sqlite3.Connection:
    """Return a connection that one thread at a time can use. The file is created if it is missing."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda data: data.decode(errors="replace")  # damaged text is found when it is parsed
    try:
        _prepare_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare_schema(connection: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        with connection:  # rolls back if it fails
            connection.executescript(f"{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    elif version != SCHEMA_VERSION:
        raise ValueError(f"schema version {version}, not {SCHEMA_VERSION}")


def is_damage_error(error: Exception) -> bool:
    """Whether the file is unusable: damaged, or written by another version of Holdfast."""
    return isinstance(error, _ROW_ERRORS) or (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE_CODES


def move_damaged_file(path: Path) -> Path:
    """Rename an unusable file, replacing the previous one, and remove its log; return the new path."""
    target = path.with_name(path.name + DAMAGED_SUFFIX)
    path.replace(target)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return target
