"""When jobs ended, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, text

from ..rows import maybe_instant, storable

_ENDINGS = text("SELECT id, finished_at FROM jobs WHERE id IN :ids").bindparams(bindparam("ids", expanding=True))
_OWNERS = text("SELECT id, user_name, finished_at FROM jobs WHERE id IN :ids")
_OWNERS = _OWNERS.bindparams(bindparam("ids", expanding=True))
_BATCH = 500


def finished_at(conn: Connection, ids: Sequence[str]) -> dict[str, datetime | None]:
    """None for those that have not ended; a job that is not known is missing."""
    known = [id for id in ids if storable(id) == id]
    found: dict[str, datetime | None] = {}
    for start in range(0, len(known), _BATCH):
        for row in conn.execute(_ENDINGS, {"ids": known[start : start + _BATCH]}):
            found[row.id] = maybe_instant(row.finished_at)
    return found


def owners(conn: Connection, ids: Sequence[str]) -> dict[str, tuple[str, datetime | None]]:
    """User and end of each job; None for those that have not ended; a job that is not known is missing."""
    known = [id for id in ids if storable(id) == id]
    found: dict[str, tuple[str, datetime | None]] = {}
    for start in range(0, len(known), _BATCH):
        for row in conn.execute(_OWNERS, {"ids": known[start : start + _BATCH]}):
            found[row.id] = (row.user_name, maybe_instant(row.finished_at))
    return found
