"""One job: its page of sections, and what can be done with it. What a section shows is in job_*.py beside this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import RedirectResponse, Response

from holdfast.core.errors import UserError
from holdfast.core.job import Hold
from holdfast.services.jobs.detail import Closeup

from ...forms import Form
from ...routes import act, page
from ...visit import Visit, own_path
from ...waiting_debuggers import WaitingDebugger, waiting_debuggers
from .csv_export import send_tasks
from .head import Why, why
from .holds import HoldView, hold_view
from .sections import SECTIONS
from .view import Section, job_address


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    key: str
    title: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    job: Closeup
    why: Why
    tabs: tuple[Tab, ...]
    key: str  # of the section that is shown
    title: str
    template: str
    data: Any  # what that section loaded
    hold: HoldView | None = None  # what of it is held
    debuggers: tuple[WaitingDebugger, ...] = ()  # that hold its programs up
    problem: str = ""  # with what was typed
    typed: str = ""

    @property
    def log(self) -> Any:
        """Where a section shows one."""
        return getattr(self.data, "log", None)


async def show_job(visit: Visit) -> Response:
    ref = visit.request.path_params["ref"]
    job = await visit.services.closeup.get(visit.who, ref)
    id = job.record.summary.id
    if ref != id:
        return RedirectResponse(own_path(job_address(id, visit.request.query_params)), 302)
    found = await _page(visit, job)
    return await visit.show("job/_page.html" if visit.wants_part else "job/detail.html", found)


async def _page(visit: Visit, job: Closeup, problem: str = "", typed: str = "") -> JobPage:
    known = [section for section in SECTIONS if section.available(job)]
    asked = visit.request.query_params.get("section", "")
    shown = next((section for section in known if section.key == asked and not section.elsewhere), known[0])
    return JobPage(
        job=job,
        why=await why(visit, job),
        tabs=tuple(_tab(visit, job, section) for section in known),
        key=shown.key,
        title=shown.title(visit),
        template=shown.template,
        data=await shown.load(visit, job),
        hold=hold_view(visit, job),
        debuggers=waiting_debuggers(visit.services, visit.who, job.record.summary),
        problem=problem,
        typed=typed,
    )


def _tab(visit: Visit, job: Closeup, section: Section) -> Tab:
    id = job.record.summary.id
    address = job_address(id, section="" if section is SECTIONS[0] else section.key)
    return Tab(
        key=section.key,
        title=section.title(visit),
        address=f"/jobs/{id}{section.elsewhere}" if section.elsewhere else address,
    )


# -- acting


async def stop_job(visit: Visit, form: Form) -> Response:
    summary, stopped = await visit.services.jobs.stop(visit.who, visit.request.path_params["ref"])
    name = summary.name
    said = visit.say("{name} is being stopped.", name=name) if stopped else visit.say("{name} had ended.", name=name)
    return visit.go(_back(form, summary.id), said)


async def rerun_job(visit: Visit, form: Form) -> Response:
    hold = Hold() if form.text("hold") else None
    done = await visit.services.jobs.rerun(visit.who, visit.request.path_params["ref"], hold=hold)
    said = visit.say("{name} was submitted again: this is the new job.", name=done.summary.name)
    return visit.go(job_address(done.summary.id), said)


async def tag_job(visit: Visit, form: Form) -> Response:
    ref, tag = visit.request.path_params["ref"], form.text("tag")
    try:
        summary = await visit.services.jobs.tag(visit.who, ref, tag)
    except UserError as error:
        if error.field != "tag":
            raise
        job = await visit.services.closeup.get(visit.who, ref)
        return await visit.show("job/detail.html", await _page(visit, job, visit.tell(error.message), tag[:300]), 400)
    return visit.go(job_address(summary.id))


async def untag_job(visit: Visit, form: Form) -> Response:
    summary = await visit.services.jobs.untag(visit.who, visit.request.path_params["ref"], form.raw("tag"))
    return visit.go(job_address(summary.id))


def _back(form: Form, job_id: str) -> str:
    """Where the form was, such as a list."""
    return own_path(form.text("back")) if form.text("back") else job_address(job_id)


routes = [
    page("/jobs/{ref}/tasks.csv", send_tasks),
    act("/jobs/{ref}/stop", stop_job),
    act("/jobs/{ref}/rerun", rerun_job),
    act("/jobs/{ref}/tag", tag_job),
    act("/jobs/{ref}/untag", untag_job),
    page("/jobs/{ref}", show_job),
]
