"""Unfinished jobs and schedules that remain after the removal of a user or group."""

from __future__ import annotations

from holdfast.core.records import JobFilter
from holdfast.core.schedule import ScheduleQuery
from holdfast.core.states import FINAL_STATES, JobState

from ...visit import Visit

_UNFINISHED_STATES = tuple(state for state in JobState if state not in FINAL_STATES)
_MAX_COUNTED_JOBS = 100  # jobs


async def describe_unfinished_jobs(visit: Visit, *, user: str | None = None, group: str | None = None) -> str:
    """Describe them; empty if there are none."""
    filter = JobFilter(user=user, groups=None if group is None else (group,), states=_UNFINISHED_STATES)
    found = await visit.services.jobs.list(visit.current_actor, filter, limit=_MAX_COUNTED_JOBS)
    count = len(found.items)
    text = visit.words.translate_plural(
        "{count} job is not finished and must be stopped first.",
        "{count} jobs are not finished and must be stopped first.",
        count,
    )
    return text.format(count=f"{count}+" if found.next else count) if count else ""


async def describe_schedules(visit: Visit, *, user: str | None = None, group: str | None = None) -> str:
    """Describe them; empty if there are none."""
    query = ScheduleQuery(user=user, groups=None if group is None else (group,), limit=1)
    count = (await visit.services.schedules.list(visit.current_actor, query)).total
    text = visit.words.translate_plural(
        "{count} schedule is kept but no longer runs.", "{count} schedules are kept but no longer run.", count
    )
    return text.format(count=count) if count else ""
