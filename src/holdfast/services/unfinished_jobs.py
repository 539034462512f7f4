"""Whether somebody still has jobs on record, or such as are not finished."""

from __future__ import annotations

from sqlalchemy import Connection

from holdfast.core.records import JobFilter
from holdfast.core.states import FINAL, JobState
from holdfast.store.jobs import records as job_rows

_UNFINISHED = tuple(state for state in JobState if state not in FINAL)


def has_unfinished(conn: Connection, *, user: str | None = None, group: str | None = None) -> bool:
    """Within a write, so that no job slips in between the look and what follows from it."""
    filter = JobFilter(user=user, groups=None if group is None else (group,), states=_UNFINISHED)
    return bool(job_rows.list_page(conn, filter, limit=1).items)


def has_jobs(conn: Connection, *, group: str) -> bool:
    """Finished ones too."""
    return bool(job_rows.list_page(conn, JobFilter(groups=(group,)), limit=1).items)
