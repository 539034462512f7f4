"""The job addresses of OpenPAI's first servers, which VS Code and the first SDKs still call."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.job import Dialect, Job
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.jobspec.openpai_render import render_openpai
from holdfast.jobspec.render import dump_yaml
from holdfast.server.answers import answer
from holdfast.server.origin import origin_of

from ..big_answers import answer_big
from ..call import Call
from ..endpoints import Who, endpoint
from ..rates import Limited
from .actions import check_owner, execute
from .detail import describe_status, find_error_logs
from .error_logs import ErrorLogs
from .listing import find_page, list_item, read_query
from .log_links import find_maker, pages_base
from .lookup import find_framework, find_named
from .shown_attempt import ShownAttempt, load_newest
from .ssh import answer_ssh
from .task_shapes import container_part, task_part

_ITEM_KEYS = (
    "name", "username", "state", "subState", "executionType", "retries", "retryDetails", "createdTime",
    "completedTime", "appExitCode", "virtualCluster", "totalGpuNumber", "totalTaskNumber", "totalTaskRoleNumber",
)  # fmt: skip
_TASK_KEYS = (
    "taskIndex", "taskState", "containerId", "containerIp", "containerPorts", "containerGpus", "containerExitCode",
)  # fmt: skip
_ATTEMPT_KEYS = ("attemptId", "attemptState")

_USERS_JOB = "/v1/user/{user}/jobs/{job}"
_FRAMEWORK = "/v1/jobs/{framework}"


# -- looking


@endpoint("GET", "/v1/jobs", who=Who.READER, limited=Limited.LIST, note="filters and pages as GET /v2/jobs")
async def list_jobs(call: Call) -> Response:
    return await _list(call, None)


@endpoint("GET", "/v1/user/{user}/jobs", who=Who.READER, limited=Limited.LIST, note="filters and pages as GET /v2/jobs")
async def list_jobs_of_user(call: Call) -> Response:
    return await _list(call, call.path("user"))


async def _list(call: Call, user: str | None) -> Response:
    query = read_query(call)
    if query is not None and user is not None:
        query = replace(query, users=(user,))
    page = await find_page(call, query, count=False)
    return await answer_big(lambda: [_item(summary) for summary in page.items], len(page.items))


def _item(summary: JobSummary) -> dict[str, Any]:
    item = list_item(summary)
    return {key: item[key] for key in _ITEM_KEYS}


@endpoint(
    "GET",
    _USERS_JOB,
    _FRAMEWORK,
    who=Who.READER,
    note="containerLog is the beginning of an address that opens without a login for as long as a log link is good",
)
async def get_job(call: Call) -> Response:
    shown = await load_newest(call, await _find(call))
    error_logs = await find_error_logs(call, shown)
    maker = await find_maker(call)
    return await answer_big(lambda: _detail(call, shown, error_logs, maker), shown.task_count)


def _detail(call: Call, shown: ShownAttempt, error_logs: ErrorLogs, maker: str) -> dict[str, Any]:
    status = {key: value for key, value in describe_status(shown, error_logs).items() if key not in _ATTEMPT_KEYS}
    status["appTrackingUrl"] = f"{origin_of(call.request)}/rest-server/api/v2/jobs/{quote(shown.framework)}"
    return {"name": shown.summary.name, "jobStatus": status, "taskRoles": _roles(call, shown, maker)}


def _roles(call: Call, shown: ShownAttempt, maker: str) -> dict[str, Any]:
    return {
        shown.keys.get(role, role): {
            "taskRoleStatus": {"name": shown.keys.get(role, role)},
            "taskStatuses": [_task(call, shown, tries, maker) for tries in tasks.values()],
        }
        for role, tasks in shown.tasks.items()
    }


def _task(call: Call, shown: ShownAttempt, tries: list[TaskRecord], maker: str) -> dict[str, Any]:
    newest = tries[-1]
    known = {**task_part(shown, tries), **container_part(shown, newest)}
    placed = newest.task.node is not None
    log = pages_base(call.request, call.services, newest, maker) if placed else None
    return {**{key: known[key] for key in _TASK_KEYS}, "containerLog": log}


@endpoint(
    "GET",
    f"{_USERS_JOB}/config",
    f"{_FRAMEWORK}/config",
    "/v1/jobs/{user}/jobs/{job}/config",  # where the JavaScript SDK asks
    who=Who.READER,
    note="a v1 job as it was written, others as v2; JSON, or YAML when Accept says so",
)
async def get_config(call: Call) -> Response:
    found = await _find(call)
    job = (await call.services.jobs.record(call.actor, found.id)).job
    config = await asyncio.to_thread(_config, job)
    if "yaml" not in call.request.headers.get("accept", "").lower():
        return answer(config)
    text = await asyncio.to_thread(dump_yaml, config)
    return Response(text.encode(), media_type="text/yaml")


def _config(job: Job) -> dict[str, Any]:
    written = job.extras.get("openpai", {}).get("config") if job.dialect is Dialect.OPENPAI_V1 else None
    return dict(written) if isinstance(written, dict) else render_openpai(job)


@endpoint(
    "GET",
    f"{_USERS_JOB}/ssh",
    f"{_FRAMEWORK}/ssh",
    who=Who.READER,
    note="as of the second protocol",
)
async def get_ssh(call: Call) -> Response:
    return await answer_ssh(call, await _find(call))


# -- acting


@endpoint("PUT", f"{_USERS_JOB}/executionType", f"{_FRAMEWORK}/executionType", note="START changes nothing")
async def set_execution_type(call: Call) -> Response:
    summary = await _find(call)
    check_owner(call, summary)
    await execute(call, summary, (await call.body()).get("value"))
    return answer({"message": f"execute job {summary.name} successfully"}, 202)


@endpoint("DELETE", _USERS_JOB, note="stops the job; its record, events and logs stay, and so does its name")
async def delete_job(call: Call) -> Response:
    summary = await _find(call)
    check_owner(call, summary)
    await call.services.jobs.stop(call.actor, summary.id)
    return answer({"message": f"deleted job {summary.name} successfully"}, 202)


async def _find(call: Call) -> JobSummary:
    given = call.request.path_params
    if "framework" in given:
        return await find_framework(call, given["framework"])
    return await find_named(call, given["user"], given["job"])
