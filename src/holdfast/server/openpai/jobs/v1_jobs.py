"""The job endpoints of OpenPAI's first servers, which VS Code and the first SDKs still use."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.job import Job, JobFormat
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.jobspec.openpai_render import build_openpai_config
from holdfast.jobspec.render import dump_yaml
from holdfast.server.origin import get_origin
from holdfast.server.responses import respond_json

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..large_responses import respond_large_json
from ..rate_limits import RateLimitedAction
from .actions import apply_execution_type, check_job_owner
from .detail import build_job_status, build_task_roles, load_error_logs
from .error_logs import ErrorLogs
from .listing import job_to_item, load_page, parse_job_query
from .log_links import build_log_pages_url, get_link_token_id
from .lookup import find_job_by_framework, find_job_by_name
from .shown_attempt import ShownAttempt, load_newest_attempt
from .ssh import respond_ssh_info
from .task_shapes import build_container_fields, build_task_fields

_ITEM_KEYS = (
    "name", "username", "state", "subState", "executionType", "retries", "retryDetails", "createdTime",
    "completedTime", "appExitCode", "virtualCluster", "totalGpuNumber", "totalTaskNumber", "totalTaskRoleNumber",
)  # fmt: skip
_TASK_KEYS = (
    "taskIndex", "taskState", "containerId", "containerIp", "containerPorts", "containerGpus", "containerExitCode",
)  # fmt: skip
_ATTEMPT_KEYS = ("attemptId", "attemptState")

_USER_JOB_PATH = "/v1/user/{user}/jobs/{job}"
_FRAMEWORK_PATH = "/v1/jobs/{framework}"


# -- queries


@endpoint(
    "GET", "/v1/jobs", who=AccessLevel.READER, limited=RateLimitedAction.LIST, note="filters and pages as GET /v2/jobs"
)
async def list_jobs(call: Call) -> Response:
    return await _respond_job_list(call, None)


@endpoint(
    "GET",
    "/v1/user/{user}/jobs",
    who=AccessLevel.READER,
    limited=RateLimitedAction.LIST,
    note="filters and pages as GET /v2/jobs",
)
async def list_user_jobs(call: Call) -> Response:
    return await _respond_job_list(call, call.get_path_text("user"))


async def _respond_job_list(call: Call, user: str | None) -> Response:
    query = parse_job_query(call)
    if query is not None and user is not None:
        query = replace(query, users=(user,))
    page = await load_page(call, query, count=False)
    return await respond_large_json(lambda: [_job_to_item(summary) for summary in page.items], len(page.items))


def _job_to_item(summary: JobSummary) -> dict[str, Any]:
    item = job_to_item(summary)
    return {key: item[key] for key in _ITEM_KEYS}


@endpoint(
    "GET",
    _USER_JOB_PATH,
    _FRAMEWORK_PATH,
    who=AccessLevel.READER,
    note="containerLog is a base URL that works without a login until the log link expires",
)
async def get_job(call: Call) -> Response:
    shown = await load_newest_attempt(call, await _find_job(call))
    error_logs = await load_error_logs(call, shown)
    maker = await get_link_token_id(call)
    return await respond_large_json(lambda: _detail_to_json(call, shown, error_logs, maker), shown.task_count)


def _detail_to_json(call: Call, shown: ShownAttempt, error_logs: ErrorLogs, maker: str) -> dict[str, Any]:
    status = {key: value for key, value in build_job_status(shown, error_logs).items() if key not in _ATTEMPT_KEYS}
    status["appTrackingUrl"] = f"{get_origin(call.request)}/rest-server/api/v2/jobs/{quote(shown.framework)}"
    roles = build_task_roles(shown, lambda tries: _task_to_json(call, shown, tries, maker))
    return {"name": shown.summary.name, "jobStatus": status, "taskRoles": roles}


def _task_to_json(call: Call, shown: ShownAttempt, tries: list[TaskRecord], maker: str) -> dict[str, Any]:
    newest = tries[-1]
    known = {**build_task_fields(shown, tries), **build_container_fields(shown, newest)}
    placed = newest.task.node is not None
    log = build_log_pages_url(call.request, call.services, newest, maker) if placed else None
    return {**{key: known[key] for key in _TASK_KEYS}, "containerLog": log}


@endpoint(
    "GET",
    f"{_USER_JOB_PATH}/config",
    f"{_FRAMEWORK_PATH}/config",
    "/v1/jobs/{user}/jobs/{job}/config",  # used by the JavaScript SDK
    who=AccessLevel.READER,
    note="a v1 job as it was submitted, others as v2; JSON, or YAML if requested by Accept",
)
async def get_config(call: Call) -> Response:
    found = await _find_job(call)
    job = (await call.services.jobs.load_detail(call.actor, found.id)).job
    config = await asyncio.to_thread(_config_to_json, job)
    if "yaml" not in call.request.headers.get("accept", "").lower():
        return respond_json(config)
    text = await asyncio.to_thread(dump_yaml, config)
    return Response(text.encode(), media_type="text/yaml")


def _config_to_json(job: Job) -> dict[str, Any]:
    written = job.extras.get("openpai", {}).get("config") if job.dialect is JobFormat.OPENPAI_V1 else None
    return dict(written) if isinstance(written, dict) else build_openpai_config(job)


@endpoint("GET", f"{_USER_JOB_PATH}/ssh", f"{_FRAMEWORK_PATH}/ssh", who=AccessLevel.READER, note="as in protocol v2")
async def get_ssh_info(call: Call) -> Response:
    return await respond_ssh_info(call, await _find_job(call))


# -- actions


@endpoint("PUT", f"{_USER_JOB_PATH}/executionType", f"{_FRAMEWORK_PATH}/executionType", note="START is ignored")
async def set_execution_type(call: Call) -> Response:
    summary = await _find_job(call)
    check_job_owner(call, summary)
    await apply_execution_type(call, summary, (await call.read_json_object()).get("value"))
    return respond_json({"message": f"execute job {summary.name} successfully"}, 202)


@endpoint("DELETE", _USER_JOB_PATH, note="stops the job; its name, record, events and logs are kept")
async def delete_job(call: Call) -> Response:
    summary = await _find_job(call)
    check_job_owner(call, summary)
    await call.services.jobs.stop(call.actor, summary.id)
    return respond_json({"message": f"deleted job {summary.name} successfully"}, 202)


async def _find_job(call: Call) -> JobSummary:
    given = call.request.path_params
    if "framework" in given:
        return await find_job_by_framework(call, given["framework"])
    return await find_job_by_name(call, given["user"], given["job"])
