"""One server to a database: a lock that dies with its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from sqlalchemy import Connection, text

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_HINT = msg("Stop the other server first, or give this one a database of its own.")

# Any number, the same in every server; PostgreSQL keeps it apart by database.
_ADVISORY_KEY = 0x486F6C6466617374


class FileLock:
    """Held from creation to `release`, or to the end of the process."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._handle, 32, 0).decode(errors="replace").strip()
            os.close(self._handle)
            raise taken(msg("process {holder}", holder=holder) if holder else "") from None
        with contextlib.suppress(OSError):  # it only says who holds the lock; a full disk must not prevent a start
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """The file stays: removing it could take the lock from under its next holder."""
        with contextlib.suppress(OSError):
            os.close(self._handle)


def taken(by: str = "") -> UserError:
    who = msg("Another server ({by})", by=by) if by else msg("Another server")
    return UserError(msg("{who} already uses this database", who=who), hint=_HINT)


def take_advisory_lock(conn: Connection) -> bool:
    """For as long as the connection lives. Taken on the connection that writes, so that no server writes without it."""
    return bool(conn.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _ADVISORY_KEY}))


def drop_advisory_lock(conn: Connection) -> None:
    """Now, rather than whenever the server notices that the connection is gone; also if it was taken more than once."""
    conn.execute(text("SELECT pg_advisory_unlock_all()"))
