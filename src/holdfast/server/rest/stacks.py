"""/jobs/{ref}/tasks/{task}/stacks: stack traces of a task's processes."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.api import inside as api

from ..auth import Caller, ServicesDep
from .routing import build_router
from .sockets.task_connections import ANY_TASK
from .views import record_to_json, respond_record

router = build_router("entering")


@router.get("/jobs/{ref}/tasks/{task}/stacks", response_model=api.StackDump)
async def show_stacks(ref: str, task: str, actor: Caller, services: ServicesDep) -> Response:
    """The Python stack traces of every process of a task that is running or on hold; of other programs, what they wait
    for. `-` instead of the task selects the one on hold, else the first that runs."""
    found = await services.stacks.dump_stacks(actor, ref, None if task == ANY_TASK else task)
    processes = [record_to_json(api.Process, each, error=each.error or None) for each in found.processes]
    return respond_record(api.StackDump, found, job=found.target.job.id, task=found.target.task, processes=processes)
