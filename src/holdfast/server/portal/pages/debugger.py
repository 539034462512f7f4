"""The debugger of a task: pdb in the page. js/debugger.js opens the line and shows where the program stands."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from holdfast.core.records import JobSummary

from ..routes import page
from ..visit import Visit, own_path
from .job_inside import Inside, inside

LONGEST = 300  # characters of a task's name


@dataclass(frozen=True, slots=True, kw_only=True)
class DebuggerPage:
    job: JobSummary
    task: str
    tasks: tuple[str, ...]  # that have a debugger, and the one that is shown
    lines: tuple[str, ...] = ()  # to come in by another way

    @property
    def line(self) -> str:
        """Where the browser opens it."""
        return f"/api/v1/jobs/{self.job.id}/tasks/{quote(self.task, safe='')}/debugger"


async def show_debugger(visit: Visit) -> Response:
    """A script that looks again is told of the job alone: a line that is open stays."""
    ref, task = visit.request.path_params["ref"], visit.request.query_params.get("task", "")[:LONGEST]
    if visit.wants_part:
        job = (await visit.services.jobs.record(visit.who, ref)).summary
        return await visit.show("debugger/_head.html", DebuggerPage(job=job, task=task, tasks=_names(visit, job, task)))
    known = (await visit.services.jobs.record(visit.who, ref)).summary
    first = next(iter(visit.services.debuggers.of(known.id)), None)
    entrance = await visit.services.entering.find(visit.who, known.id, task or (first.task if first else None))
    if (ref, task) != (entrance.job.id, entrance.task):
        address = f"/jobs/{entrance.job.id}/debugger?task={quote(entrance.task, safe='')}"
        return RedirectResponse(own_path(address), 302)
    found = DebuggerPage(
        job=entrance.job,
        task=task,
        tasks=_names(visit, entrance.job, task),
        lines=_lines(inside(visit, entrance)),
    )
    return await visit.show("debugger/detail.html", found)


def _lines(way: Inside) -> tuple[str, ...]:
    return tuple(filter(None, (way.cli.replace("holdfast ssh", "holdfast debug", 1), way.ssh)))


def _names(visit: Visit, job: JobSummary, shown: str) -> tuple[str, ...]:
    """Those that have a debugger, after the one that is shown."""
    found = [each.task for each in visit.services.debuggers.of(job.id)]
    return tuple(dict.fromkeys([*([shown] if shown else []), *found]))


routes = [page("/jobs/{ref}/debugger", show_debugger)]
