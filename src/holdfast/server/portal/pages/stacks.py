"""What the programs of a task are doing right now: their stacks, to read and to copy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.records import JobSummary
from holdfast.services.inside.stacks import Process, Thread

from ..routes import page
from ..visit import Visit

MAX_LENGTH = 300  # characters of a task's name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStacks:
    title: str
    state: str
    text: str  # its stacks
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksPage:
    job: JobSummary
    task: str
    tasks: tuple[str, ...]  # to choose from
    at: datetime
    processes: tuple[ProcessStacks, ...]
    text: str  # all of it, to be copied
    left_out: int

    @property
    def again(self) -> str:
        return f"/jobs/{self.job.id}/stacks?task={quote(self.task, safe='')}"


async def show_stacks(visit: Visit) -> Response:
    ref, task = visit.request.path_params["ref"], visit.request.query_params.get("task", "")[:MAX_LENGTH]
    found = await visit.services.stacks.dump(visit.who, ref, task or None)
    job = found.entrance.job
    rows = tuple(_shown(visit, each) for each in found.processes)
    whole = "\n\n".join(f"{row.title}\n{row.text or row.error or row.state}".rstrip() for row in rows)
    shown = StacksPage(
        job=job,
        task=found.entrance.task,
        tasks=tuple(entrance.task for entrance in visit.services.entering.tasks_of(visit.who, job)),
        at=datetime.now(UTC),
        processes=rows,
        text=f"{job.id} {found.entrance.task}\n\n{whole}\n",
        left_out=found.left_out,
    )
    return await visit.show("stacks/detail.html", shown)


def _shown(visit: Visit, process: Process) -> ProcessStacks:
    state = " · ".join(filter(None, (process.state, process.waits_in)))
    return ProcessStacks(
        title=f"{process.pid} {process.command}",
        state=state,
        text="\n".join(_thread_text(thread) for thread in process.threads),
        error=visit.tell(process.error) if process.error else "",
    )


def _thread_text(thread: Thread) -> str:
    """As py-spy writes it."""
    how = "active" if thread.active else "idle"
    head = f'Thread {thread.id} ({how}{"+gil" if thread.owns_gil else ""}): "{thread.name}"'
    return "\n".join([head, *(f"    {frame.function} ({frame.file}:{frame.line})" for frame in thread.frames)])


routes = [page("/jobs/{ref}/stacks", show_stacks)]
