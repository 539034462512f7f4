"""How many jobs a user has in each state: ranges of one index, read no further than anybody would count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, text

from holdfast.core.states import JobState

from ..rows import HOUR, micros, storable
from ..statements import MAX_INT, any_of, list_value, marked

_FIRST_SINCE = text("SELECT min(first_seq) FROM job_hours WHERE hour >= :hour")


def count_own(
    conn: Connection, user: str, groups: Sequence[str] | None, since: datetime, most: int
) -> dict[JobState, int]:
    """Jobs that are not final, and final ones submitted since the hour of `since`; of these groups, or of all. Counts
    end at `most`."""
    low = conn.scalar(_FIRST_SINCE, {"hour": micros(since) // HOUR})
    recent = MAX_INT if low is None else low
    return {state: _count(conn, user, groups, state, recent if state.final else 0, most) for state in JobState}


def _count(conn: Connection, user: str, groups: Sequence[str] | None, state: JobState, low: int, most: int) -> int:
    within = "" if groups is None else f" AND {any_of(conn, 'group_name')}"
    sql = (
        "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE user_name = {} AND state = {} AND seq >= {}"  # noqa: S608
        f"{within} LIMIT {{}}) AS found"
    )
    chosen = () if groups is None else (list_value(conn, groups),)
    values = (storable(user), state.value, low, *chosen, most)
    return int(conn.exec_driver_sql(marked(conn, sql), values).scalar_one())
