"""What calls for somebody: their job is held, or a debugger in it waits. A script tells it on any page they are on."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.records import JobSummary

from ..routes import page
from ..visit import Visit
from ..waiting_debuggers import WaitingDebugger, waiting_debuggers


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    key: str  # the same for the same call: each is shown once
    debugger: WaitingDebugger | None = None  # None: the task is held
    task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsPage:
    job: JobSummary
    calls: tuple[Call, ...]


async def show_calls(visit: Visit) -> Response:
    job = (await visit.services.jobs.record(visit.who, visit.request.path_params["ref"])).summary
    held = visit.services.holds.of(job.id)[:1]
    waiting = [each for each in waiting_debuggers(visit.services, visit.who, job) if not each.attached][:1]
    calls = (
        *(Call(key=f"{job.id} {each.task} held", task=each.task) for each in held),
        *(Call(key=f"{job.id} {each.task} {each.since.timestamp():.0f}", debugger=each) for each in waiting),
    )
    return await visit.show("parts/_calls.html", CallsPage(job=job, calls=calls))


routes = [page("/jobs/{ref}/calls", show_calls)]
