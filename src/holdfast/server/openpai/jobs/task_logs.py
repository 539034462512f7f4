"""GET …/logs: links to the log of one try of a task."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from holdfast.core.errors import Expired, NotFound
from holdfast.core.records import JobSummary
from holdfast.engines.base import LogStream
from holdfast.server.responses import respond_json
from holdfast.services.logs.service import LogSelection, TaskLog

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError, translate_errors
from .log_links import build_log_links, get_link_token_id
from .lookup import find_job_by_framework, find_role, map_role_keys
from .shown_attempt import load_node_addresses

NO_LOG_MESSAGE = "Log of task is not found."


@endpoint(
    "GET",
    "/v2/jobs/{framework}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts/{number}/logs",
    who=AccessLevel.READER,
    note="`tail-mode` and `tailMode` are the same; log files are not rotated: stdout, stderr and all are complete",
)
async def list_task_logs(call: Call) -> Response:
    summary = await find_job_by_framework(call, call.get_path_text("framework"))
    job = (await call.services.jobs.load_detail(call.actor, summary.id)).job
    role = find_role(job, call.get_path_text("role"))
    if role is None:
        raise build_no_log_error()
    chosen = await _find_task_log(call, summary, role)
    links = build_log_links(
        call.services,
        chosen.job,
        chosen.record,
        maker=await get_link_token_id(call),
        role=map_role_keys(job)[role],
        machine=(await load_node_addresses(call)).get(chosen.record.task.machine or "")
        or chosen.record.task.host
        or "localhost",
        tail=_is_tail_mode(call),
    )
    return respond_json({"locations": links})


async def _find_task_log(call: Call, summary: JobSummary, role: str) -> TaskLog:
    """Choose a try that was started and whose log still exists."""
    attempt, index, number = (call.get_path_number(name) for name in ("attempt", "index", "number"))
    if attempt is None or index is None or number is None:
        raise build_no_log_error()
    wanted = LogSelection(ref=summary.id, task=f"{role}-{index}", attempt=attempt, number=number)
    with translate_errors(
        (NotFound, 404, "NoTaskLogError", NO_LOG_MESSAGE), (Expired, 404, "NoTaskLogError", NO_LOG_MESSAGE)
    ):
        chosen = await call.services.logs.select_log(call.actor, wanted)
        call.services.logs.open_source(replace(chosen, stream=LogStream.STDOUT))
    return chosen


def _is_tail_mode(call: Call) -> bool:
    return "true" in (call.get_query_text("tail-mode"), call.get_query_text("tailMode"))


def build_no_log_error() -> PaiError:
    return PaiError(404, "NoTaskLogError", NO_LOG_MESSAGE)
