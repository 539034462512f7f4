"""How long jobs took that came before, by whose they were and what they were called."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from sqlalchemy import Connection, text

from holdfast.core.states import JobState

from ..rows import storable

MAX_RUNS = 10  # the newest
MIN_RUNS = 3  # fewer say nothing

# Bounds of whole index keys, as in `finding`.
_NEWEST = text(
    "SELECT state, attempt_started_at, finished_at FROM jobs WHERE (user_name, name, seq) >= (:user, :name, 0)"
    " AND (user_name, name, seq) <= (:user, :name, 9223372036854775807)"
    " ORDER BY user_name DESC, name DESC, seq DESC LIMIT :limit"
)


def usual_seconds(conn: Connection, jobs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """User and name -> how long such jobs took that succeeded; only of those of which there were some."""
    found = {}
    for user, name in dict.fromkeys(jobs):
        values = {"user": storable(user), "name": storable(name), "limit": MAX_RUNS}
        took = [
            (row.finished_at - row.attempt_started_at) / 1e6
            for row in conn.execute(_NEWEST, values)
            if row.state == JobState.SUCCEEDED.value
            and row.attempt_started_at is not None
            and row.finished_at is not None
        ]
        if len(took) >= MIN_RUNS:
            found[user, name] = median(took)
    return found
