"""The job list: filters, rows, paging, and the empty list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup
from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.states import JobState
from holdfast.services import Services
from holdfast.services.name_suggestions import build_group_not_found_error
from holdfast.timezones import find_machine_timezone, get_zone

from ....errors import STATUS_CODES
from ...jobs.filters import (
    CUSTOM_RANGE,
    PAGE_SIZES,
    TIME_RANGES,
    JobListFilters,
    check_filter_problems,
    parse_job_filters,
)
from ...jobs.first_job import FirstJob, build_first_job
from ...jobs.rows import render_rows
from ...routes import build_page_route
from ...visit import Visit

LIVE_SEARCH_HEADER = "x-typed"  # the request is for a typed letter; more will follow


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListPage:
    filters: JobListFilters
    rows: tuple[Markup, ...] = ()
    scheduled: bool = False  # some jobs belong to a schedule
    older: str | None = None  # addresses of other pages
    newest: str | None = None
    groups: tuple[str, ...] = ()  # to choose from
    zone: str = ""
    problems: tuple[str, ...] = ()
    first_job: FirstJob | None = None
    states: tuple[JobState, ...] = tuple(JobState)
    spans: tuple[str, ...] = (*TIME_RANGES, CUSTOM_RANGE)
    limits: tuple[int, ...] = PAGE_SIZES


async def show_jobs(visit: Visit) -> Response:
    filters, problems = parse_job_filters(visit)
    if visit.wants_part:
        check_filter_problems(problems)
        return await _show_results(visit, await _load_job_list(visit, filters))
    if problems:
        return await _show_problems(visit, filters, problems, 400)
    try:
        return await visit.render_response("jobs/list.html", await _load_job_list(visit, filters))
    except UserError as error:
        texts = [visit.translate_message(error.message), visit.translate_message(error.hint or "")]
        return await _show_problems(visit, filters, filter(None, texts), STATUS_CODES.get(error.code, 400))


async def _show_results(visit: Visit, found: JobListPage) -> Response:
    """Show the list and update the address bar, without a history entry for each typed letter."""
    response = await visit.render_response("jobs/_results.html", found)
    typed = LIVE_SEARCH_HEADER in visit.request.headers
    response.headers["HX-Replace-Url" if typed else "HX-Push-Url"] = found.filters.address
    return response


async def _show_problems(visit: Visit, filters: JobListFilters, problems: Iterable[str], status: int) -> Response:
    groups = await _list_visible_groups(visit.services, visit.current_actor)
    page = JobListPage(filters=filters, groups=groups, problems=tuple(problems), zone=_get_zone_name(visit))
    return await visit.render_response("jobs/list.html", page, status)


async def _load_job_list(visit: Visit, filters: JobListFilters) -> JobListPage:
    choices = await _list_visible_groups(visit.services, visit.current_actor)
    _require_known_groups(filters, choices)
    zone = _get_zone_name(visit)
    job_filter = filters.to_job_filter(visit.current_actor.name, datetime.now(UTC), get_zone(zone))
    jobs = visit.services.jobs
    found = await jobs.list(visit.current_actor, job_filter, limit=filters.limit, cursor=filters.cursor or None)
    schedules = await visit.services.schedules.load_schedule_names(
        visit.current_actor, {job.schedule for job in found.items if job.schedule}
    )
    nothing = not found.items and not filters.any and not filters.cursor
    return JobListPage(
        filters=filters,
        scheduled=any(job.schedule for job in found.items),
        rows=render_rows(visit, found.items, schedules),
        older=filters.build_address(cursor=found.next) if found.next else None,
        newest=filters.build_address() if filters.cursor else None,
        groups=choices,
        zone=zone,
        first_job=build_first_job(visit.current_actor) if nothing else None,
    )


def _require_known_groups(filters: JobListFilters, choices: tuple[str, ...]) -> None:
    for group in filters.groups:
        if group not in choices:
            raise _build_unknown_group_error(group, choices)


def _build_unknown_group_error(group: str, choices: tuple[str, ...]) -> NotFound:
    known = build_group_not_found_error(group, choices, "group")
    return NotFound(msg("Group {group} not found, or you are not a member", group=group[:100]), hint=known.hint)


async def _list_visible_groups(services: Services, actor: Actor) -> tuple[str, ...]:
    """Return the groups whose jobs the user can see."""
    if not (actor.admin or actor.can_read_all_jobs):
        return tuple(sorted(actor.groups))
    return tuple(sorted(group.name for group in await services.groups.list(actor)))


def _get_zone_name(visit: Visit) -> str:
    """Return the time zone of days, which is the one of schedules."""
    return visit.services.settings.schedules.timezone or find_machine_timezone()


routes = [build_page_route("/jobs", show_jobs)]
