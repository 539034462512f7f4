"""Whether a user or group has jobs, or unfinished ones."""

from __future__ import annotations

from sqlalchemy import Connection

from holdfast.core.records import JobFilter
from holdfast.core.states import FINAL_STATES, JobState
from holdfast.store.jobs import records as job_rows

_UNFINISHED_STATES = tuple(state for state in JobState if state not in FINAL_STATES)


def has_unfinished_jobs(conn: Connection, *, user: str | None = None, group: str | None = None) -> bool:
    """Check within a write, so that no job is added between the check and the change."""
    filter = JobFilter(user=user, groups=None if group is None else (group,), states=_UNFINISHED_STATES)
    return bool(job_rows.list_job_page(conn, filter, limit=1).items)


def has_jobs(conn: Connection, *, group: str) -> bool:
    """Return whether the group has any job, finished or not."""
    return bool(job_rows.list_job_page(conn, JobFilter(groups=(group,)), limit=1).items)
