"""GET …/logs: where the log of one try of a task is read."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from holdfast.core.errors import Expired, NotFound
from holdfast.core.records import JobSummary
from holdfast.engines.base import Stream
from holdfast.server.answers import answer
from holdfast.services.logs.service import Chosen, Selection

from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError, telling
from .log_links import find_maker, list_links
from .lookup import find_framework, find_role, role_keys

NO_LOG = "Log of task is not found."


@endpoint(
    "GET",
    "/v2/jobs/{framework}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{number}/logs",
    who=Who.READER,
    note="`tail-mode` and `tailMode` mean the same; there are no rotated files: stdout, stderr and all are whole",
)
async def list_task_logs(call: Call) -> Response:
    summary = await find_framework(call, call.path("framework"))
    job = (await call.services.jobs.record(call.actor, summary.id)).job
    role = find_role(job, call.path("role"))
    if role is None:
        raise no_log()
    chosen = await _choose(call, summary, role)
    links = list_links(
        call.services,
        chosen.job,
        chosen.record,
        maker=await find_maker(call),
        role=role_keys(job)[role],
        machine=await _address(call, chosen),
        tail=_asks_tail(call),
    )
    return answer({"locations": links})


async def _choose(call: Call, summary: JobSummary, role: str) -> Chosen:
    """A try that was started and whose log is kept."""
    attempt, index, number = (call.number(name) for name in ("attempt", "index", "number"))
    if attempt is None or index is None or number is None:
        raise no_log()
    wanted = Selection(ref=summary.id, task=f"{role}-{index}", attempt=attempt, number=number)
    with telling((NotFound, 404, "NoTaskLogError", NO_LOG), (Expired, 404, "NoTaskLogError", NO_LOG)):
        chosen = await call.services.logs.choose(call.actor, wanted)
        call.services.logs.source(replace(chosen, stream=Stream.STDOUT))
    return chosen


async def _address(call: Call, chosen: Chosen) -> str:
    """Of the machine it ran on, as far as it is still known."""
    capacity = await call.services.place.capacity(call.actor)
    known = {use.node.name: use.node.address for use in capacity.nodes}
    return known.get(chosen.record.task.node or "") or "localhost"


def _asks_tail(call: Call) -> bool:
    return "true" in (call.query("tail-mode"), call.query("tailMode"))


def no_log() -> PaiError:
    return PaiError(404, "NoTaskLogError", NO_LOG)
