"""Stack traces of the processes of a task."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.records import JobSummary
from holdfast.services.inside.stack_dumps import InspectedProcess, ThreadStack

from ..routes import build_page_route
from ..visit import Visit

MAX_TASK_NAME_LENGTH = 300  # characters of a task's name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStacks:
    title: str
    state: str
    text: str  # stack traces
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksPage:
    job: JobSummary
    task: str
    tasks: tuple[str, ...]  # choices
    at: datetime
    processes: tuple[ProcessStacks, ...]
    text: str  # everything, to copy
    left_out: int

    @property
    def refresh_address(self) -> str:
        return f"/jobs/{self.job.id}/stacks?task={quote(self.task, safe='')}"


async def show_stacks(visit: Visit) -> Response:
    ref, task = visit.path_params["ref"], visit.query.get("task", "")[:MAX_TASK_NAME_LENGTH]
    found = await visit.services.stacks.dump_stacks(visit.current_actor, ref, task or None)
    job = found.target.job
    rows = tuple(_build_process_stacks(visit, each) for each in found.processes)
    traces = "\n\n".join(f"{row.title}\n{row.text or row.error or row.state}".rstrip() for row in rows)
    shown = StacksPage(
        job=job,
        task=found.target.task,
        tasks=tuple(each.task for each in visit.services.task_access.list_job_targets(visit.current_actor, job)),
        at=datetime.now(UTC),
        processes=rows,
        text=f"{job.id} {found.target.task}\n\n{traces}\n",
        left_out=found.left_out,
    )
    return await visit.render_response("stacks/detail.html", shown)


def _build_process_stacks(visit: Visit, process: InspectedProcess) -> ProcessStacks:
    state = " · ".join(filter(None, (process.state, process.waits_in)))
    return ProcessStacks(
        title=f"{process.pid} {process.command}",
        state=state,
        text="\n".join(_format_thread(thread) for thread in process.threads),
        error=visit.translate_message(process.error) if process.error else "",
    )


def _format_thread(thread: ThreadStack) -> str:
    """Format a thread like py-spy."""
    how = "active" if thread.active else "idle"
    head = f'Thread {thread.id} ({how}{"+gil" if thread.owns_gil else ""}): "{thread.name}"'
    return "\n".join([head, *(f"    {frame.function} ({frame.file}:{frame.line})" for frame in thread.frames)])


routes = [build_page_route("/jobs/{ref}/stacks", show_stacks)]
