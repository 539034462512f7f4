"""A terminal into a task that runs or is held. The page is a box; js/terminal.js opens the line and draws."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from holdfast.core.records import JobSummary

from ..routes import page
from ..visit import Visit, own_path
from .job.inside import Inside, inside

MAX_LENGTH = 300  # characters of a task's name


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalPage:
    job: JobSummary
    task: str
    tasks: tuple[str, ...]  # that can be entered
    inside: Inside | None = None  # None in the part that is fetched again

    @property
    def line(self) -> str:
        """Where the browser opens it."""
        return f"/api/v1/jobs/{self.job.id}/tasks/{quote(self.task, safe='')}/exec"


async def show_terminal(visit: Visit) -> Response:
    """A script that looks again is told of the job alone: a line that is open stays."""
    ref, task = visit.request.path_params["ref"], visit.request.query_params.get("task", "")[:MAX_LENGTH]
    entering = visit.services.entering
    if visit.wants_part:
        job = (await visit.services.jobs.record(visit.who, ref)).summary
        found = TerminalPage(job=job, task=task, tasks=_names(visit, job, task))
        return await visit.show("terminal/_head.html", found)
    entrance = await entering.find(visit.who, ref, task or None)
    if (ref, task) != (entrance.job.id, entrance.task):
        address = f"/jobs/{entrance.job.id}/terminal?task={quote(entrance.task, safe='')}"
        return RedirectResponse(own_path(address), 302)
    found = TerminalPage(
        job=entrance.job,
        task=entrance.task,
        tasks=_names(visit, entrance.job, entrance.task),
        inside=inside(visit, entrance),
    )
    return await visit.show("terminal/detail.html", found)


def _names(visit: Visit, job: JobSummary, shown: str) -> tuple[str, ...]:
    """With the one that is shown, which may have ended by now."""
    names = [entrance.task for entrance in visit.services.entering.tasks_of(visit.who, job)]
    return tuple(names if shown in names or not shown else [shown, *names])


routes = [page("/jobs/{ref}/terminal", show_terminal)]
