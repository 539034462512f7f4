"""A terminal in a running or held task. js/terminal.js opens the WebSocket and draws it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from holdfast.core.records import JobSummary

from ..routes import build_page_route
from ..visit import Visit, sanitize_path
from .job.inside import TaskAccess, build_task_access

MAX_TASK_NAME_LENGTH = 300  # characters of a task's name


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalPage:
    job: JobSummary
    task: str
    tasks: tuple[str, ...]  # tasks with shell access
    inside: TaskAccess | None = None  # None in the part that scripts reload

    @property
    def websocket_path(self) -> str:
        return f"/api/v1/jobs/{self.job.id}/tasks/{quote(self.task, safe='')}/exec"


async def show_terminal(visit: Visit) -> Response:
    """Show the page. A script that reloads gets only the state of the job: an open WebSocket is kept."""
    ref, task = visit.path_params["ref"], visit.query.get("task", "")[:MAX_TASK_NAME_LENGTH]
    if visit.wants_part:
        job = (await visit.services.jobs.load_detail(visit.current_actor, ref)).summary
        found = TerminalPage(job=job, task=task, tasks=_list_task_names(visit, job, task))
        return await visit.render_response("terminal/_head.html", found)
    target = await visit.services.task_access.find_target(visit.current_actor, ref, task or None)
    if (ref, task) != (target.job.id, target.task):
        address = f"/jobs/{target.job.id}/terminal?task={quote(target.task, safe='')}"
        return RedirectResponse(sanitize_path(address), 302)
    found = TerminalPage(
        job=target.job,
        task=target.task,
        tasks=_list_task_names(visit, target.job, target.task),
        inside=build_task_access(visit, target),
    )
    return await visit.render_response("terminal/detail.html", found)


def _list_task_names(visit: Visit, job: JobSummary, shown: str) -> tuple[str, ...]:
    """Return the tasks, including the shown one, which may have ended."""
    names = [target.task for target in visit.services.task_access.list_job_targets(visit.current_actor, job)]
    return tuple(names if shown in names or not shown else [shown, *names])


routes = [build_page_route("/jobs/{ref}/terminal", show_terminal)]
