"""Finish times and owners of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, text

from ..rows import from_optional_micros, make_storable

_SELECT_OWNERS = text("SELECT id, user_name, finished_at FROM jobs WHERE id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)
_BATCH_SIZE = 500


def load_finish_times(conn: Connection, ids: Sequence[str]) -> dict[str, datetime | None]:
    """Map each known job to its finish time; None if it has not ended."""
    return {id: finished_at for id, (_, finished_at) in load_owners_and_finish_times(conn, ids).items()}


def load_owners_and_finish_times(conn: Connection, ids: Sequence[str]) -> dict[str, tuple[str, datetime | None]]:
    """Map each known job to its user and finish time; None if it has not ended."""
    known = [id for id in ids if make_storable(id) == id]
    found: dict[str, tuple[str, datetime | None]] = {}
    for start in range(0, len(known), _BATCH_SIZE):
        for row in conn.execute(_SELECT_OWNERS, {"ids": known[start : start + _BATCH_SIZE]}):
            found[row.id] = (row.user_name, from_optional_micros(row.finished_at))
    return found
