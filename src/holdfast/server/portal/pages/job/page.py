"""The page of a job and its actions. Its sections are in the modules beside this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import RedirectResponse, Response

from holdfast.core.errors import UserError
from holdfast.core.job import Hold
from holdfast.services.jobs.job_pages import JobHeader

from ...forms import Form
from ...routes import build_form_route, build_page_route
from ...visit import Visit, sanitize_path
from ...waiting_debuggers import WaitingDebugger, list_waiting_debuggers
from .csv_export import export_tasks
from .head import StateExplanation, explain_state
from .holds import HoldView, build_hold_view
from .sections import SECTIONS
from .view import Section, build_job_address


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionTab:
    key: str
    title: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    job: JobHeader
    why: StateExplanation
    tabs: tuple[SectionTab, ...]
    key: str  # of the shown section
    title: str
    template: str
    data: Any  # data of that section
    hold: HoldView | None = None  # held tasks
    debuggers: tuple[WaitingDebugger, ...] = ()  # waiting
    problem: str = ""  # of the typed value
    typed: str = ""

    @property
    def log(self) -> Any:
        """The log of a section that shows one."""
        return getattr(self.data, "log", None)


async def show_job(visit: Visit) -> Response:
    ref = visit.path_params["ref"]
    job = await visit.services.job_pages.get(visit.current_actor, ref)
    id = job.record.summary.id
    if ref != id:
        return RedirectResponse(sanitize_path(build_job_address(id, visit.query)), 302)
    found = await _build_job_page(visit, job)
    return await visit.render_response("job/_page.html" if visit.wants_part else "job/detail.html", found)


async def _build_job_page(visit: Visit, job: JobHeader, problem: str = "", typed: str = "") -> JobPage:
    known = [section for section in SECTIONS if section.available(job)]
    requested = visit.query.get("section", "")
    shown = next((section for section in known if section.key == requested and not section.separate_path), known[0])
    return JobPage(
        job=job,
        why=await explain_state(visit, job),
        tabs=tuple(_build_tab(visit, job, section) for section in known),
        key=shown.key,
        title=shown.title(visit),
        template=shown.template,
        data=await shown.load(visit, job),
        hold=build_hold_view(visit, job),
        debuggers=list_waiting_debuggers(visit.services, visit.current_actor, job.record.summary),
        problem=problem,
        typed=typed,
    )


def _build_tab(visit: Visit, job: JobHeader, section: Section) -> SectionTab:
    id = job.record.summary.id
    address = build_job_address(id, section="" if section is SECTIONS[0] else section.key)
    return SectionTab(
        key=section.key,
        title=section.title(visit),
        address=f"/jobs/{id}{section.separate_path}" if section.separate_path else address,
    )


# -- acting


async def stop_job(visit: Visit, form: Form) -> Response:
    summary, stopped = await visit.services.jobs.stop(visit.current_actor, visit.path_params["ref"])
    _ = visit.translate_text
    message = _("{name} is stopping." if stopped else "{name} has already ended.", name=summary.name)
    return visit.redirect(_get_return_path(form, summary.id), message)


async def rerun_job(visit: Visit, form: Form) -> Response:
    hold = Hold() if form.get_text("hold") else None
    done = await visit.services.jobs.rerun(visit.current_actor, visit.path_params["ref"], hold=hold)
    message = visit.translate_text("{name} was resubmitted. This is the new job.", name=done.summary.name)
    return visit.redirect(build_job_address(done.summary.id), message)


async def tag_job(visit: Visit, form: Form) -> Response:
    ref, tag = visit.path_params["ref"], form.get_text("tag")
    try:
        summary = await visit.services.jobs.tag(visit.current_actor, ref, tag)
    except UserError as error:
        if error.field != "tag":
            raise
        job = await visit.services.job_pages.get(visit.current_actor, ref)
        return await visit.render_response(
            "job/detail.html", await _build_job_page(visit, job, visit.translate_message(error.message), tag[:300]), 400
        )
    return visit.redirect(build_job_address(summary.id))


async def untag_job(visit: Visit, form: Form) -> Response:
    summary = await visit.services.jobs.untag(visit.current_actor, visit.path_params["ref"], form.get_raw_text("tag"))
    return visit.redirect(build_job_address(summary.id))


def _get_return_path(form: Form, job_id: str) -> str:
    """Return the path of the page with the form, such as a list."""
    return sanitize_path(form.get_text("back")) if form.get_text("back") else build_job_address(job_id)


routes = [
    build_page_route("/jobs/{ref}/tasks.csv", export_tasks),
    build_form_route("/jobs/{ref}/stop", stop_job),
    build_form_route("/jobs/{ref}/rerun", rerun_job),
    build_form_route("/jobs/{ref}/tag", tag_job),
    build_form_route("/jobs/{ref}/untag", untag_job),
    build_page_route("/jobs/{ref}", show_job),
]
