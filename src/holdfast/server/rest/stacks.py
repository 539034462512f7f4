"""/jobs/{ref}/tasks/{task}/stacks: where the programs of a task are right now."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.api import inside as api
from holdfast.services.inside.stacks import Process, Thread

from ..answers import answer
from ..auth import Ask, Caller
from .addresses import rest_router
from .sockets.task_connections import ANY_TASK

router = rest_router("entering")


@router.get("/jobs/{ref}/tasks/{task}/stacks", response_model=api.Stacks)
async def show_stacks(ref: str, task: str, actor: Caller, services: Ask) -> Response:
    """The Python stacks of every process of a task that runs or is held; of other programs, what they wait for. `-` in
    place of the task is the one that is held, else the first that runs."""
    found = await services.stacks.dump(actor, ref, None if task == ANY_TASK else task)
    processes = [_process(each) for each in found.processes]
    where = {"job": found.entrance.job.id, "task": found.entrance.task}
    return answer({**where, "processes": processes, "left_out": found.left_out})


def _process(process: Process) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "parent": process.parent,
        "command": process.command,
        "python": process.python,
        "state": process.state,
        "waits_in": process.waits_in,
        "threads": [_thread(each) for each in process.threads],
        "error": process.error or None,
    }


def _thread(thread: Thread) -> dict[str, Any]:
    return {
        "id": thread.id,
        "name": thread.name,
        "active": thread.active,
        "owns_gil": thread.owns_gil,
        "frames": [{"function": each.function, "file": each.file, "line": each.line} for each in thread.frames],
    }
