"""Translates database errors into StoreError."""

from __future__ import annotations

from sqlalchemy import exc

from holdfast.core.messages import msg

from .errors import DiskFull, StoreError

_DISK_FULL_MESSAGE = msg("Cannot write to the database: the disk is full")
# SQLite's error names for a full disk. The index of the write-ahead log has its own error.
_DISK_FULL_ERRORS = frozenset({"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"})
# Text in the database's error -> message. The first match is used.
_MESSAGES_BY_ERROR = (
    ("disk is full", _DISK_FULL_MESSAGE),
    ("No space left", _DISK_FULL_MESSAGE),
    ("database is locked", msg("The database is locked by another program")),
    ("readonly database", msg("The database is read-only: check the permissions of its file and folder")),
    ("malformed", msg("The database file is damaged")),
    ("not a database", msg("The file is not a database")),
)


def is_connection_lost(error: BaseException) -> bool:
    return isinstance(error, exc.DBAPIError) and error.connection_invalidated


def is_outage(error: BaseException) -> bool:
    """Whether the database failed, as opposed to an invalid statement."""
    if is_connection_lost(error):
        return True
    wrong_question = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.NotSupportedError)
    return isinstance(error, exc.DBAPIError) and not isinstance(error, wrong_question)


def describe_database_error(error: BaseException) -> str:
    if is_connection_lost(error):
        return msg("The connection to the database was lost")
    cause = getattr(error, "orig", None) or error
    if getattr(cause, "sqlite_errorname", "") in _DISK_FULL_ERRORS:
        return _DISK_FULL_MESSAGE
    text = str(cause)
    for sign, words in _MESSAGES_BY_ERROR:
        if sign in text:
            return words
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return msg("Database error: {first}", first=first)


def translate_database_error(error: Exception) -> Exception:
    """Return a StoreError for an outage; return other errors unchanged."""
    if isinstance(error, StopIteration):
        return RuntimeError(msg("A database function raised StopIteration"))  # no future can carry it
    if not is_outage(error):
        return error
    outage = to_store_error(error)
    outage.__cause__ = error
    return outage


def to_store_error(error: Exception) -> StoreError:
    words = describe_database_error(error)
    return DiskFull(words) if words == _DISK_FULL_MESSAGE else StoreError(words)
