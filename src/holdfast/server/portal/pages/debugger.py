"""The debugger of a task: pdb in the page. js/debugger.js opens the line and shows where the program stands."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote as shell_quote
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from holdfast.core.records import JobSummary

from ..routes import page
from ..visit import Visit, own_path
from ..waiting_debuggers import debugger_address
from .job.inside import Inside, inside

MAX_LENGTH = 300  # characters of the name of a task or of a debugger


@dataclass(frozen=True, slots=True, kw_only=True)
class DebuggerPage:
    job: JobSummary
    task: str
    id: str = ""  # of one of several in it; empty: whichever comes first
    tasks: tuple[str, ...]  # that have a debugger, and the one that is shown
    lines: tuple[str, ...] = ()  # to come in by another way

    @property
    def line(self) -> str:
        """Where the browser opens it."""
        line = f"/api/v1/jobs/{self.job.id}/tasks/{quote(self.task, safe='')}/debugger"
        return f"{line}?id={quote(self.id, safe='')}" if self.id else line


async def show_debugger(visit: Visit) -> Response:
    """A script that looks again is told of the job alone: a line that is open stays."""
    asked = visit.request.query_params
    ref, task, id = (
        visit.request.path_params["ref"],
        asked.get("task", "")[:MAX_LENGTH],
        asked.get("id", "")[:MAX_LENGTH],
    )
    if visit.wants_part:
        job = (await visit.services.jobs.record(visit.who, ref)).summary
        return await visit.show("debugger/_head.html", DebuggerPage(job=job, task=task, tasks=_names(visit, job, task)))
    known = (await visit.services.jobs.record(visit.who, ref)).summary
    first = next(iter(visit.services.debuggers.of(known.id)), None)
    entrance = await visit.services.entering.find(visit.who, known.id, task or (first.task if first else None))
    if (ref, task) != (entrance.job.id, entrance.task):
        address = debugger_address(entrance.job.id, entrance.task, id if task else "")
        return RedirectResponse(own_path(address), 302)
    found = DebuggerPage(
        job=entrance.job,
        task=task,
        id=id,
        tasks=_names(visit, entrance.job, task),
        lines=_lines(inside(visit, entrance), id),
    )
    return await visit.show("debugger/detail.html", found)


def _lines(way: Inside, id: str) -> tuple[str, ...]:
    debug = way.cli.replace("holdfast ssh", "holdfast debug", 1)
    return tuple(filter(None, (f"{debug} --id {shell_quote(id)}" if debug and id else debug, way.ssh)))


def _names(visit: Visit, job: JobSummary, shown: str) -> tuple[str, ...]:
    """Those that have a debugger, after the one that is shown."""
    found = [each.task for each in visit.services.debuggers.of(job.id)]
    return tuple(dict.fromkeys([*([shown] if shown else []), *found]))


routes = [page("/jobs/{ref}/debugger", show_debugger)]
