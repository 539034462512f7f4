"""Recurring jobs: the list, one of them with its history, and what can be done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.responses import Response

from holdfast.core.schedule import Run, ScheduleOrder, ScheduleQuery

from ..forms import Form
from ..routes import act, page
from ..schedule_views import DueTime, ScheduleView, next_runs, view_of
from ..visit import Visit, own_path

PAGE = 25  # schedules
RUNS = 20  # of the history, on one page
MAX_FILTER_LENGTH = 200
MAX_PAGES = 1_000_000 // PAGE
ORDERS = {  # as a column is asked for -> what it sorts by, and whether it begins with the greatest
    "name": (ScheduleOrder.NAME, False),
    "group": (ScheduleOrder.GROUP, False),
    "next": (ScheduleOrder.NEXT_RUN, False),
    "user": (ScheduleOrder.USER, False),
    "updated": (ScheduleOrder.UPDATED, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting:
    """A column's link, and which way it sorts now."""

    href: str
    aria: str  # ascending, descending or none


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesPage:
    items: tuple[ScheduleView, ...]
    total: int
    groups: tuple[str, ...]  # to choose from
    group: str
    mine: bool
    text: str
    order: str
    reverse: bool
    sorting: dict[str, Sorting]
    number: int  # of this page, from 1
    pages: int
    previous: str  # address; empty when there is none
    following: str
    here: str  # this very address, to come back to

    @property
    def filtered(self) -> bool:
        return bool(self.group or self.mine or self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What an address asks for."""

    group: str
    mine: bool
    text: str
    order: str
    reverse: bool
    number: int

    def address(self, **changes: object) -> str:
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
    choice = _choice(visit)
    by, descending = ORDERS[choice.order]
    query = ScheduleQuery(
        groups=(choice.group,) if choice.group else None,
        user=visit.who.name if choice.mine else None,
        text=choice.text or None,
        order=by,
        descending=descending != choice.reverse,
        offset=(choice.number - 1) * PAGE,
        limit=PAGE,
    )
    services = visit.services
    found = await services.schedules.list(visit.who, query)
    last = await services.schedules.newest_runs(visit.who, found.items)
    items = tuple(view_of(each, services, visit.who, last.get(each.id)) for each in found.items)
    shown = await _list_page(visit, choice, items, found.total)
    return await visit.show("schedules/_list.html" if visit.wants_part else "schedules/list.html", shown)


async def _list_page(visit: Visit, choice: Choice, items: tuple[ScheduleView, ...], total: int) -> SchedulesPage:
    number, pages = choice.number, max(1, -(-total // PAGE))
    groups = [group.name for group in await visit.services.groups.list(visit.who)]
    return SchedulesPage(
        items=items,
        total=total,
        groups=tuple(sorted({*groups, *([choice.group] if choice.group else ())})),
        group=choice.group,
        mine=choice.mine,
        text=choice.text,
        order=choice.order,
        reverse=choice.reverse,
        sorting={name: _sorting(choice, name) for name in ORDERS},
        number=number,
        pages=pages,
        previous=choice.address(page=min(number - 1, pages)) if number > 1 else "",
        following=choice.address(page=number + 1) if number < pages else "",
        here=choice.address(),
    )


def _choice(visit: Visit) -> Choice:
    """Whatever an address may hold that we did not write is as if it was not there."""
    given = visit.request.query_params
    order = given.get("order", "")
    return Choice(
        group=given.get("group", "")[:MAX_FILTER_LENGTH],
        mine=bool(given.get("mine")),
        text=given.get("text", "").strip()[:MAX_FILTER_LENGTH],
        order=order if order in ORDERS else "updated",
        reverse=bool(given.get("reverse")),
        number=visit.number("page", MAX_PAGES) or 1,
    )


def _sorting(choice: Choice, column: str) -> Sorting:
    here = choice.order == column
    reverse = here and not choice.reverse
    href = choice.address(order="" if column == "updated" else column, reverse="on" if reverse else "", page="")
    descending = ORDERS[column][1] != choice.reverse
    return Sorting(href=href, aria=("descending" if descending else "ascending") if here else "none")


# -- one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    view: ScheduleView
    next_runs: tuple[DueTime, ...]
    runs: Sequence[Run]
    older: int | None  # the history goes on before this one
    newest: bool  # it begins here


async def show_schedule(visit: Visit) -> Response:
    id = visit.request.path_params["id"]
    services = visit.services
    schedule = await services.schedules.get(visit.who, id)
    start = visit.number("before")
    runs = await services.schedules.runs(visit.who, id, before=start, limit=RUNS + 1)
    found = SchedulePage(
        view=view_of(schedule, services, visit.who, runs[0] if runs and start is None else None),
        next_runs=await next_runs(services, schedule, visit.words.code),
        runs=runs[:RUNS],
        older=runs[RUNS - 1].seq if len(runs) > RUNS else None,
        newest=start is None,
    )
    return await visit.show("schedules/_detail.html" if visit.wants_part else "schedules/detail.html", found)


# -- doing something with it


async def run_now(visit: Visit, form: Form) -> Response:
    id = visit.request.path_params["id"]
    done = await visit.services.schedules.run_now(visit.who, id)
    said = visit.say("{name} runs now, as the job {job}.", name=done.summary.name, job=done.summary.id)
    warnings = [visit.say("Warning: {what}.", what=visit.tell(text).rstrip(".。")) for text in done.warnings]
    return visit.go(_back(form, id), " ".join([said, *warnings]), link=f"/jobs/{done.summary.id}")


async def pause(visit: Visit, form: Form) -> Response:
    found = await visit.services.schedules.pause(visit.who, visit.request.path_params["id"])
    said = visit.say("{name} is paused: nothing runs until it is resumed.", name=found.name)
    return visit.go(_back(form, found.id), said)


async def resume(visit: Visit, form: Form) -> Response:
    found = await visit.services.schedules.resume(visit.who, visit.request.path_params["id"])
    return visit.go(_back(form, found.id), visit.say("{name} goes on from its next time.", name=found.name))


async def delete(visit: Visit, form: Form) -> Response:
    found = await visit.services.schedules.delete(visit.who, visit.request.path_params["id"])
    target = own_path(form.text("back", "/schedules"))
    target = target if target.startswith("/schedules?") else "/schedules"
    return visit.go(target, visit.say("{name} is deleted. Its jobs stay.", name=found.name))


def _back(form: Form, id: str) -> str:
    """To where it was asked for: the list, as it was, or the schedule."""
    target = own_path(form.text("back"))
    return target if target.startswith("/schedules") else f"/schedules/{quote(id, safe='')}"


routes = [
    page("/schedules", show_schedules),
    page("/schedules/{id}", show_schedule),
    act("/schedules/{id}/run", run_now),
    act("/schedules/{id}/pause", pause),
    act("/schedules/{id}/resume", resume),
    act("/schedules/{id}/delete", delete),
]
