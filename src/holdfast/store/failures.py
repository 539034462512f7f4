"""Database errors -> our own words, once, at the edge of the store."""

from __future__ import annotations

from sqlalchemy import exc

from holdfast.core.messages import msg

from .errors import DiskFull, StoreError

_FULL = msg("The database cannot grow: the disk is full")
# SQLite's names of errors that a full disk causes. Its index of the write-ahead log grows by a call of its own.
_FULL_NAMES = frozenset({"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"})
# What the database says -> what we say. The first that is found counts.
_WORDS = (
    (msg("disk is full"), _FULL),
    (msg("No space left"), _FULL),
    (msg("database is locked"), msg("The database is locked by another program")),
    (msg("readonly database"), msg("The database may only be read: look at the permissions of its file and folder")),
    ("malformed", msg("The database file is damaged")),
    (msg("not a database"), msg("The file is not a database")),
)


def lost_connection(error: BaseException) -> bool:
    return isinstance(error, exc.DBAPIError) and error.connection_invalidated


def is_outage(error: BaseException) -> bool:
    """The database failed, as against: it was asked something wrong."""
    if lost_connection(error):
        return True
    wrong_question = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.NotSupportedError)
    return isinstance(error, exc.DBAPIError) and not isinstance(error, wrong_question)


def describe(error: BaseException) -> str:
    if lost_connection(error):
        return msg("The connection to the database was lost")
    cause = getattr(error, "orig", None) or error
    if getattr(cause, "sqlite_errorname", "") in _FULL_NAMES:
        return _FULL
    text = str(cause)
    for sign, words in _WORDS:
        if sign in text:
            return words
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return msg("The database failed: {first}", first=first)


def translated(error: Exception) -> Exception:
    """A new StoreError for an outage, anything else as it is."""
    if isinstance(error, StopIteration):
        return RuntimeError(msg("A function of the store raised StopIteration"))  # no future can carry it
    if not is_outage(error):
        return error
    words = describe(error)
    outage = DiskFull(words) if words == _FULL else StoreError(words)
    outage.__cause__ = error
    return outage
