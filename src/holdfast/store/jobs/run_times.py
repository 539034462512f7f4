"""Run times of earlier jobs, by user and name."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from sqlalchemy import Connection, text

from holdfast.core.states import JobState

from ..rows import make_storable

MAX_SAMPLED_JOBS = 10  # the newest ones
MIN_SAMPLED_JOBS = 3  # fewer are not significant

# Bounds of whole index keys, as in `lookup`.
_SELECT_NEWEST_JOBS = text(
    "SELECT state, attempt_started_at, finished_at FROM jobs WHERE (user_name, name, seq) >= (:user, :name, 0)"
    " AND (user_name, name, seq) <= (:user, :name, 9223372036854775807)"
    " ORDER BY user_name DESC, name DESC, seq DESC LIMIT :limit"
)


def estimate_run_seconds(conn: Connection, jobs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Map user and name to the median run time of succeeded jobs, if there were enough."""
    found = {}
    for user, name in dict.fromkeys(jobs):
        values = {"user": make_storable(user), "name": make_storable(name), "limit": MAX_SAMPLED_JOBS}
        took = [
            (row.finished_at - row.attempt_started_at) / 1e6
            for row in conn.execute(_SELECT_NEWEST_JOBS, values)
            if row.state == JobState.SUCCEEDED.value
            and row.attempt_started_at is not None
            and row.finished_at is not None
        ]
        if len(took) >= MIN_SAMPLED_JOBS:
            found[user, name] = median(took)
    return found
