"""Exclusive database locks, released when the process ends: one server per database."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from sqlalchemy import Connection, text

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_DATABASE_IN_USE_HINT = msg("Stop the other server, or set `store.url` to another database.")

# An arbitrary number, the same in every server; PostgreSQL advisory locks are per database.
_ADVISORY_KEY = 0x486F6C6466617374


class FileLock:
    """A lock that is held until `release` or the end of the process."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._handle, 32, 0).decode(errors="replace").strip()
            os.close(self._handle)
            raise build_database_in_use_error(msg("process {holder}", holder=holder) if holder else "") from None
        with contextlib.suppress(OSError):  # it only shows the holder of the lock; a full disk must not prevent a start
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. The file is kept: removing it could break the lock of the next holder."""
        with contextlib.suppress(OSError):
            os.close(self._handle)


def build_database_in_use_error(by: str = "") -> UserError:
    who = msg("Another server ({by})", by=by) if by else msg("Another server")
    return UserError(msg("{who} is already using this database", who=who), hint=_DATABASE_IN_USE_HINT)


def acquire_advisory_lock(conn: Connection) -> bool:
    """Acquire the lock for the life of the writer connection, so that no server writes without it."""
    return bool(conn.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _ADVISORY_KEY}))


def release_advisory_lock(conn: Connection) -> None:
    """Release the lock at once, even if it was acquired more than once."""
    conn.execute(text("SELECT pg_advisory_unlock_all()"))
