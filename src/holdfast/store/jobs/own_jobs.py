"""Number of a user's jobs in each state: ranges of one index, counted up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, text

from holdfast.core.states import JobState

from ..rows import MICROS_PER_HOUR, make_storable, to_micros
from ..statements import MAX_INT, build_any_of_condition, format_placeholders, to_list_value

_SELECT_FIRST_SEQ_SINCE = text("SELECT min(first_seq) FROM job_hours WHERE hour >= :hour")


def count_user_jobs_by_state(
    conn: Connection, user: str, groups: Sequence[str] | None, since: datetime, most: int
) -> dict[JobState, int]:
    """Final jobs only if submitted since the hour of `since`. `groups` None: all. Counts end at `most`."""
    low = conn.scalar(_SELECT_FIRST_SEQ_SINCE, {"hour": to_micros(since) // MICROS_PER_HOUR})
    recent = MAX_INT if low is None else low
    return {
        state: _count_jobs_in_state(conn, user, groups, state, recent if state.final else 0, most) for state in JobState
    }


def _count_jobs_in_state(
    conn: Connection, user: str, groups: Sequence[str] | None, state: JobState, low: int, most: int
) -> int:
    within = "" if groups is None else f" AND {build_any_of_condition(conn, 'group_name')}"
    sql = (
        "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE user_name = {} AND state = {} AND seq >= {}"  # noqa: S608
        f"{within} LIMIT {{}}) AS found"
    )
    chosen = () if groups is None else (to_list_value(conn, groups),)
    values = (make_storable(user), state.value, low, *chosen, most)
    return int(conn.exec_driver_sql(format_placeholders(conn, sql), values).scalar_one())
