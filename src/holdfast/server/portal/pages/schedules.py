"""Schedules: the list, the page of one with its history, and actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.responses import Response

from holdfast.core.schedule import ScheduleOrder, ScheduleQuery, ScheduleRun

from ..forms import Form
from ..routes import build_form_route, build_page_route
from ..schedule_views import DueTime, ScheduleView, build_schedule_view, list_next_due_times
from ..visit import Visit, sanitize_path

SCHEDULES_PER_PAGE = 25  # schedules
RUNS_PER_PAGE = 20  # of the history
MAX_FILTER_LENGTH = 200
MAX_PAGE_NUMBER = 1_000_000 // SCHEDULES_PER_PAGE
SORT_COLUMNS = {  # column -> sort order, and whether it is descending by default
    "name": (ScheduleOrder.NAME, False),
    "group": (ScheduleOrder.GROUP, False),
    "next": (ScheduleOrder.NEXT_RUN, False),
    "user": (ScheduleOrder.USER, False),
    "updated": (ScheduleOrder.UPDATED, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SortLink:
    """The link of a column and its current direction."""

    href: str
    aria: str  # ascending, descending or none


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesPage:
    options: ScheduleListOptions
    items: tuple[ScheduleView, ...]
    groups: tuple[str, ...]  # choices
    sorting: dict[str, SortLink]
    pages: int
    previous: str  # address; empty: none
    next: str
    here: str  # this address, to return to


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleListOptions:
    """The options of the URL."""

    group: str
    mine: bool
    text: str
    order: str
    reverse: bool
    number: int  # of the page, from 1

    @property
    def filtered(self) -> bool:
        return bool(self.group or self.mine or self.text)

    def build_address(self, **changes: object) -> str:
        values = {
            "group": self.group,
            "mine": "on" if self.mine else "",
            "text": self.text,
            "order": "" if self.order == "updated" else self.order,
            "reverse": "on" if self.reverse else "",
            "page": self.number if self.number > 1 else "",
            **changes,
        }
        query = urlencode({name: value for name, value in values.items() if value})
        return f"/schedules?{query}" if query else "/schedules"


async def show_schedules(visit: Visit) -> Response:
    options = _parse_list_options(visit)
    by, descending = SORT_COLUMNS[options.order]
    query = ScheduleQuery(
        groups=(options.group,) if options.group else None,
        user=visit.current_actor.name if options.mine else None,
        text=options.text or None,
        order=by,
        descending=descending != options.reverse,
        offset=(options.number - 1) * SCHEDULES_PER_PAGE,
        limit=SCHEDULES_PER_PAGE,
    )
    services = visit.services
    found = await services.schedules.list(visit.current_actor, query)
    last = await services.schedules.load_newest_runs(visit.current_actor, found.items)
    items = tuple(build_schedule_view(each, services, visit.current_actor, last.get(each.id)) for each in found.items)
    shown = await _build_schedules_page(visit, options, items, found.total)
    return await visit.render_response("schedules/_list.html" if visit.wants_part else "schedules/list.html", shown)


async def _build_schedules_page(
    visit: Visit, options: ScheduleListOptions, items: tuple[ScheduleView, ...], total: int
) -> SchedulesPage:
    number, pages = options.number, max(1, -(-total // SCHEDULES_PER_PAGE))
    groups = [group.name for group in await visit.services.groups.list(visit.current_actor)]
    return SchedulesPage(
        options=options,
        items=items,
        groups=tuple(sorted({*groups, *([options.group] if options.group else ())})),
        sorting={name: _build_sort_link(options, name) for name in SORT_COLUMNS},
        pages=pages,
        previous=options.build_address(page=min(number - 1, pages)) if number > 1 else "",
        next=options.build_address(page=number + 1) if number < pages else "",
        here=options.build_address(),
    )


def _parse_list_options(visit: Visit) -> ScheduleListOptions:
    """Parse the options; invalid ones are ignored."""
    query = visit.query
    order = query.get("order", "")
    return ScheduleListOptions(
        group=query.get("group", "")[:MAX_FILTER_LENGTH],
        mine=bool(query.get("mine")),
        text=query.get("text", "").strip()[:MAX_FILTER_LENGTH],
        order=order if order in SORT_COLUMNS else "updated",
        reverse=bool(query.get("reverse")),
        number=visit.get_query_integer("page", MAX_PAGE_NUMBER) or 1,
    )


def _build_sort_link(options: ScheduleListOptions, column: str) -> SortLink:
    here = options.order == column
    reverse = here and not options.reverse
    href = options.build_address(order="" if column == "updated" else column, reverse="on" if reverse else "", page="")
    descending = SORT_COLUMNS[column][1] != options.reverse
    return SortLink(href=href, aria=("descending" if descending else "ascending") if here else "none")


# -- one schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    view: ScheduleView
    next_runs: tuple[DueTime, ...]
    runs: Sequence[ScheduleRun]
    older: int | None  # start of the older history; None: there is none
    newest: bool  # this is the newest part


async def show_schedule(visit: Visit) -> Response:
    id = visit.path_params["id"]
    services = visit.services
    schedule = await services.schedules.get(visit.current_actor, id)
    start = visit.get_query_integer("before")
    runs = await services.schedules.list_runs(visit.current_actor, id, before=start, limit=RUNS_PER_PAGE + 1)
    found = SchedulePage(
        view=build_schedule_view(schedule, services, visit.current_actor, runs[0] if runs and start is None else None),
        next_runs=await list_next_due_times(services, schedule, visit.words.code),
        runs=runs[:RUNS_PER_PAGE],
        older=runs[RUNS_PER_PAGE - 1].seq if len(runs) > RUNS_PER_PAGE else None,
        newest=start is None,
    )
    return await visit.render_response("schedules/_detail.html" if visit.wants_part else "schedules/detail.html", found)


# -- actions


async def run_schedule_now(visit: Visit, form: Form) -> Response:
    id = visit.path_params["id"]
    done = await visit.services.schedules.run_schedule_now(visit.current_actor, id)
    message = visit.translate_text("{name} runs now as job {job}.", name=done.summary.name, job=done.summary.id)
    warnings = [
        visit.translate_text("Warning: {what}.", what=visit.translate_message(text).rstrip(".。"))
        for text in done.warnings
    ]
    return visit.redirect(_get_return_path(form, id), " ".join([message, *warnings]), link=f"/jobs/{done.summary.id}")


async def pause_schedule(visit: Visit, form: Form) -> Response:
    found = await visit.services.schedules.pause(visit.current_actor, visit.path_params["id"])
    message = visit.translate_text("{name} is paused and does not run until it is resumed.", name=found.name)
    return visit.redirect(_get_return_path(form, found.id), message)


async def resume_schedule(visit: Visit, form: Form) -> Response:
    found = await visit.services.schedules.resume(visit.current_actor, visit.path_params["id"])
    message = visit.translate_text("{name} is resumed and runs at its next due time.", name=found.name)
    return visit.redirect(_get_return_path(form, found.id), message)


async def delete_schedule(visit: Visit, form: Form) -> Response:
    found = await visit.services.schedules.delete(visit.current_actor, visit.path_params["id"])
    target = sanitize_path(form.get_text("back", "/schedules"))
    target = target if target.startswith("/schedules?") else "/schedules"
    return visit.redirect(target, visit.translate_text("{name} was deleted. Its jobs are kept.", name=found.name))


def _get_return_path(form: Form, id: str) -> str:
    """Return the path of the list or schedule with the form."""
    target = sanitize_path(form.get_text("back"))
    return target if target.startswith("/schedules") else f"/schedules/{quote(id, safe='')}"


routes = [
    build_page_route("/schedules", show_schedules),
    build_page_route("/schedules/{id}", show_schedule),
    build_form_route("/schedules/{id}/run", run_schedule_now),
    build_form_route("/schedules/{id}/pause", pause_schedule),
    build_form_route("/schedules/{id}/resume", resume_schedule),
    build_form_route("/schedules/{id}/delete", delete_schedule),
]
