"""The debugger of a task: pdb in the page. js/debugger.js opens the WebSocket and shows the current position."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote as shell_quote
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from holdfast.core.records import JobSummary

from ..routes import build_page_route
from ..visit import Visit, sanitize_path
from ..waiting_debuggers import build_debugger_address
from .job.inside import TaskAccess, build_task_access

MAX_NAME_LENGTH = 300  # characters of the name of a task or of a debugger


@dataclass(frozen=True, slots=True, kw_only=True)
class DebuggerPage:
    job: JobSummary
    task: str
    id: str = ""  # of one of several in the task; empty: the first one
    tasks: tuple[str, ...]  # tasks with a debugger, and the shown one
    lines: tuple[str, ...] = ()  # commands to connect in other ways

    @property
    def websocket_path(self) -> str:
        line = f"/api/v1/jobs/{self.job.id}/tasks/{quote(self.task, safe='')}/debugger"
        return f"{line}?id={quote(self.id, safe='')}" if self.id else line


async def show_debugger(visit: Visit) -> Response:
    """Show the page. A script that reloads gets only the state of the job: an open WebSocket is kept."""
    ref, task = visit.path_params["ref"], visit.query.get("task", "")[:MAX_NAME_LENGTH]
    id = visit.query.get("id", "")[:MAX_NAME_LENGTH]
    job = (await visit.services.jobs.load_detail(visit.current_actor, ref)).summary
    if visit.wants_part:
        head = DebuggerPage(job=job, task=task, tasks=_list_debugger_tasks(visit, job, task))
        return await visit.render_response("debugger/_head.html", head)
    first = next((each.task for each in visit.services.debuggers.list_job_debuggers(job.id)), None)
    target = await visit.services.task_access.find_target(visit.current_actor, job.id, task or first)
    if (ref, task) != (target.job.id, target.task):
        address = build_debugger_address(target.job.id, target.task, id if task else "")
        return RedirectResponse(sanitize_path(address), 302)
    found = DebuggerPage(
        job=target.job,
        task=task,
        id=id,
        tasks=_list_debugger_tasks(visit, target.job, task),
        lines=_build_connect_commands(build_task_access(visit, target), id),
    )
    return await visit.render_response("debugger/detail.html", found)


def _build_connect_commands(access: TaskAccess, id: str) -> tuple[str, ...]:
    debug = access.cli.replace("holdfast ssh", "holdfast debug", 1)
    return tuple(filter(None, (f"{debug} --id {shell_quote(id)}" if debug and id else debug, access.ssh)))


def _list_debugger_tasks(visit: Visit, job: JobSummary, shown: str) -> tuple[str, ...]:
    """Return the shown task and the tasks with a debugger."""
    found = [each.task for each in visit.services.debuggers.list_job_debuggers(job.id)]
    return tuple(dict.fromkeys([*([shown] if shown else []), *found]))


routes = [build_page_route("/jobs/{ref}/debugger", show_debugger)]
