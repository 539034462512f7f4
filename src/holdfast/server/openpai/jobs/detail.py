"""GET /v2/jobs/<user>~<job>: one job, with the tasks of its newest attempt or of an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from holdfast.core.identity import build_attempt_uid, build_debug_id
from holdfast.engines.base import LogStream
from holdfast.services.logs.service import TaskLog

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..large_responses import respond_large_json
from ..times import to_milliseconds
from .error_logs import NO_ERROR_LOGS, ErrorLogs, read_error_logs
from .exit_shapes import NO_EXIT_FIELDS, app_exit_to_json, build_runtime_report
from .listing import build_job_fields, list_tags
from .lookup import build_no_attempt_error, find_job_by_framework, get_framework_name
from .shown_attempt import ShownAttempt, Tries, load_attempt, load_newest_attempt
from .task_shapes import build_task_status


@endpoint("GET", "/v2/jobs/{framework}", who=AccessLevel.READER, note="tasks and their ports are shown from the start")
async def get_job(call: Call) -> Response:
    shown = await load_newest_attempt(call, await find_job_by_framework(call, call.get_path_text("framework")))
    error_logs = await load_error_logs(call, shown)
    return await respond_large_json(lambda: build_job_detail(shown, error_logs), shown.task_count)


@endpoint("GET", "/v2/jobs/{framework}/attempts/{attempt}", who=AccessLevel.READER)
async def get_job_attempt(call: Call) -> Response:
    shown = await load_named_attempt(call)
    error_logs = await load_error_logs(call, shown)
    return await respond_large_json(lambda: build_job_detail(shown, error_logs), shown.task_count)


async def load_named_attempt(call: Call) -> ShownAttempt:
    """Return the attempt that the URL names."""
    summary = await find_job_by_framework(call, call.get_path_text("framework"))
    number = call.get_path_number("attempt")
    shown = await load_attempt(call, summary, number) if number is not None else None
    if shown is None:
        raise build_no_attempt_error(call.get_path_text("attempt"), get_framework_name(summary))
    return shown


async def load_error_logs(call: Call, shown: ShownAttempt) -> ErrorLogs:
    """Return the error log of the task that caused the failure."""
    outcome = shown.outcome
    if shown.exit is None or outcome is None or outcome.role is None or build_runtime_report(shown.exit) is None:
        return NO_ERROR_LOGS
    tries = shown.tasks.get(outcome.role, {}).get(outcome.index if outcome.index is not None else -1)
    if not tries:
        return NO_ERROR_LOGS
    chosen = TaskLog(job=shown.summary, record=tries[-1], stream=LogStream.MERGED)
    return await read_error_logs(call.services.logs, chosen)


def build_job_detail(shown: ShownAttempt, error_logs: ErrorLogs = NO_ERROR_LOGS) -> dict[str, Any]:
    """Return the whole detail. Job fields describe the newest attempt; all others the shown one."""
    summary = shown.summary
    return {
        "debugId": build_debug_id(summary.user, summary.name),
        "name": summary.name,
        "tags": list_tags(summary),
        "jobStatus": build_job_status(shown, error_logs),
        "taskRoles": build_task_roles(shown, lambda tries: build_task_status(shown, tries)),
    }


def build_job_status(shown: ShownAttempt, error_logs: ErrorLogs = NO_ERROR_LOGS) -> dict[str, Any]:
    return {
        "username": shown.summary.user,
        **build_job_fields(shown.summary),
        **build_attempt_fields(shown, error_logs),
        "virtualCluster": shown.summary.group,
    }


def build_attempt_fields(shown: ShownAttempt, error_logs: ErrorLogs = NO_ERROR_LOGS) -> dict[str, Any]:
    return {
        "attemptId": shown.number,
        "attemptState": shown.state,
        "appId": f"{shown.number}_{build_attempt_uid(shown.summary.id, shown.number)}",
        "appProgress": 0 if shown.exit is None else 1,
        "appTrackingUrl": "",
        "appCreatedTime": to_milliseconds(shown.created_at),
        "appLaunchedTime": to_milliseconds(shown.started_at or shown.finished_at),
        "appCompletedTime": to_milliseconds(shown.finished_at),
        **build_exit_fields(shown, error_logs),
    }


def build_exit_fields(shown: ShownAttempt, error_logs: ErrorLogs = NO_ERROR_LOGS) -> dict[str, Any]:
    """Return the appExit fields; all empty until the attempt has ended."""
    if shown.exit is None:
        return NO_EXIT_FIELDS
    role = shown.outcome.role if shown.outcome else None
    return app_exit_to_json(shown.exit, shown.outcome, shown.role_keys.get(role) if role else None, error_logs)


def build_task_roles(shown: ShownAttempt, describe_task: Callable[[Tries], dict[str, Any]]) -> dict[str, Any]:
    return {
        shown.role_keys.get(role, role): {
            "taskRoleStatus": {"name": shown.role_keys.get(role, role)},
            "taskStatuses": [describe_task(tries) for tries in tasks.values()],
        }
        for role, tasks in shown.tasks.items()
    }
