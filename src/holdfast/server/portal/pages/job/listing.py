"""The job list: filters, rows, paging, and what an empty one says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup
from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary, Page
from holdfast.core.states import JobState
from holdfast.services import Services
from holdfast.services.name_suggestions import no_group
from holdfast.timezones import machine_timezone, zone

from ....errors import STATUS
from ...jobs.filters import CUSTOM, LIMITS, SPANS, Filters, need_sense, read_filters
from ...jobs.first_job import FirstJob, first_job
from ...jobs.rows import render_rows
from ...routes import page
from ...visit import Visit

TYPED_HEADER = "x-typed"  # this is about a letter that was typed: more will follow


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListPage:
    filters: Filters
    rows: tuple[Markup, ...] = ()
    scheduled: bool = False  # some of them come of a schedule
    older: str | None = None  # addresses of other pages of it
    newest: str | None = None
    groups: tuple[str, ...] = ()  # to choose from
    zone: str = ""
    problems: tuple[str, ...] = ()
    first_job: FirstJob | None = None
    states: tuple[JobState, ...] = tuple(JobState)
    spans: tuple[str, ...] = (*SPANS, CUSTOM)
    limits: tuple[int, ...] = LIMITS


async def show_jobs(visit: Visit) -> Response:
    filters, problems = read_filters(visit)
    if visit.wants_part:
        need_sense(problems)
        found = await _fill(visit, filters)
        return await _show_part(visit, found)
    if problems:
        groups = await _choices(visit.services, visit.who)
        found = JobListPage(filters=filters, groups=groups, problems=tuple(problems), zone=_zone(visit))
        return await visit.show("jobs/list.html", found, 400)
    try:
        return await visit.show("jobs/list.html", await _fill(visit, filters))
    except UserError as error:
        return await _show_problem(visit, filters, error)


async def _show_part(visit: Visit, found: JobListPage) -> Response:
    """The address bar follows; not every letter that is typed is a step to go back to."""
    response = await visit.show("jobs/_results.html", found)
    typed = TYPED_HEADER in visit.request.headers
    response.headers["HX-Replace-Url" if typed else "HX-Push-Url"] = found.filters.address
    return response


async def _show_problem(visit: Visit, filters: Filters, error: UserError) -> Response:
    told = [visit.tell(error.message), visit.tell(error.hint or "")]
    groups = await _choices(visit.services, visit.who)
    found = JobListPage(filters=filters, groups=groups, problems=tuple(filter(None, told)), zone=_zone(visit))
    return await visit.show("jobs/list.html", found, STATUS.get(error.code, 400))


async def _fill(visit: Visit, filters: Filters) -> JobListPage:
    choices = await _choices(visit.services, visit.who)
    _need_known(filters, choices)
    place = _zone(visit)
    wanted = filters.job_filter(visit.who.name, datetime.now(UTC), zone(place))
    cursor = filters.cursor or None
    found: Page[JobSummary] = await visit.services.jobs.list(visit.who, wanted, limit=filters.limit, cursor=cursor)
    schedules = await visit.services.schedules.names(visit.who, {job.schedule for job in found.items if job.schedule})
    nothing = not found.items and not filters.any and not filters.cursor
    return JobListPage(
        filters=filters,
        scheduled=any(job.schedule for job in found.items),
        rows=render_rows(visit, found.items, schedules),
        older=filters.but(cursor=found.next) if found.next else None,
        newest=filters.but() if filters.cursor else None,
        groups=choices,
        zone=place,
        first_job=first_job(visit.who) if nothing else None,
    )


def _need_known(filters: Filters, choices: tuple[str, ...]) -> None:
    for group in filters.groups:
        if group not in choices:
            raise _unknown(group, choices)


def _unknown(group: str, choices: tuple[str, ...]) -> NotFound:
    known = no_group(group, choices, "group")
    return NotFound(msg("There is no group {group}, or you are not in it", group=group[:100]), hint=known.hint)


async def _choices(services: Services, actor: Actor) -> tuple[str, ...]:
    """Groups whose jobs one may see."""
    if not (actor.admin or actor.reads_all):
        return tuple(sorted(actor.groups))
    return tuple(sorted(group.name for group in await services.groups.list(actor)))


def _zone(visit: Visit) -> str:
    """Days begin and end where recurring jobs are due, too."""
    return visit.services.settings.schedules.timezone or machine_timezone()


routes = [page("/jobs", show_jobs)]
