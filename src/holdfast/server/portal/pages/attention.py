"""Calls for attention: a job of the user is on hold, or a debugger in it waits. A script shows them on any page."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.records import JobSummary

from ..routes import build_page_route
from ..visit import Visit
from ..waiting_debuggers import WaitingDebugger, list_waiting_debuggers


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    key: str  # identifies a call, so that it is shown once
    debugger: WaitingDebugger | None = None  # None: the task is held
    task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPage:
    job: JobSummary
    items: tuple[AttentionItem, ...]


async def show_attention(visit: Visit) -> Response:
    job = (await visit.services.jobs.load_detail(visit.current_actor, visit.path_params["ref"])).summary
    held = visit.services.holds.list_held_tasks(job.id)[:1]
    debuggers = list_waiting_debuggers(visit.services, visit.current_actor, job)
    waiting = [each for each in debuggers if not each.attached][:1]
    items = (
        *(AttentionItem(key=f"{job.id} {each.task} held", task=each.task) for each in held),
        *(AttentionItem(key=f"{job.id} {each.task} {each.since.timestamp():.0f}", debugger=each) for each in waiting),
    )
    return await visit.render_response("parts/_attention.html", AttentionPage(job=job, items=items))


routes = [build_page_route("/jobs/{ref}/attention", show_attention)]
