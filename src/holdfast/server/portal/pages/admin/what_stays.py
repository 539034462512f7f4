"""What a removal of a user or a group is told to leave behind: jobs that run, and recurring ones."""

from __future__ import annotations

from holdfast.core.records import JobFilter
from holdfast.core.schedule import ScheduleQuery
from holdfast.core.states import FINAL, JobState

from ...visit import Visit

_UNFINISHED = tuple(state for state in JobState if state not in FINAL)
_COUNTED = 100  # jobs


async def unfinished_jobs(visit: Visit, *, user: str | None = None, group: str | None = None) -> str:
    """Empty: none."""
    filter = JobFilter(user=user, groups=None if group is None else (group,), states=_UNFINISHED)
    found = await visit.services.jobs.list(visit.who, filter, limit=_COUNTED)
    count = len(found.items)
    text = visit.words.count(
        "{count} job is not finished, and must be stopped first.",
        "{count} jobs are not finished, and must be stopped first.",
        count,
    )
    return text.format(count=f"{count}+" if found.next else count) if count else ""


async def schedules_left(visit: Visit, *, user: str | None = None, group: str | None = None) -> str:
    """Empty: none."""
    query = ScheduleQuery(user=user, groups=None if group is None else (group,), limit=1)
    count = (await visit.services.schedules.list(visit.who, query)).total
    text = visit.words.count(
        "{count} recurring job stays, but does not run any more.",
        "{count} recurring jobs stay, but do not run any more.",
        count,
    )
    return text.format(count=count) if count else ""
