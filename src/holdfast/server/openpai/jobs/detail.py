"""GET /v2/jobs/<user>~<job>: one job, with the tasks of its newest attempt or of an earlier one."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.identity import attempt_uid, debug_id
from holdfast.engines.base import Stream
from holdfast.services.logs.service import Chosen

from ..big_answers import answer_big
from ..call import Call
from ..endpoints import Who, endpoint
from ..times import millis
from .error_logs import NOTHING, ErrorLogs, read_error_logs
from .exit_shapes import NO_EXIT, app_exit, runtime_report
from .listing import job_part, tags_of
from .lookup import find_framework, full_name, no_attempt
from .shown_attempt import ShownAttempt, load_attempt, load_newest
from .task_shapes import task_status


@endpoint("GET", "/v2/jobs/{framework}", who=Who.READER, note="tasks and their ports are shown from the first moment")
async def get_job(call: Call) -> Response:
    shown = await load_newest(call, await find_framework(call, call.path("framework")))
    error_logs = await find_error_logs(call, shown)
    return await answer_big(lambda: describe(shown, error_logs), shown.task_count)


@endpoint("GET", "/v2/jobs/{framework}/attempts/{attempt}", who=Who.READER)
async def get_job_attempt(call: Call) -> Response:
    shown = await find_attempt(call)
    error_logs = await find_error_logs(call, shown)
    return await answer_big(lambda: describe(shown, error_logs), shown.task_count)


async def find_attempt(call: Call) -> ShownAttempt:
    """The attempt of a job that an address names."""
    summary = await find_framework(call, call.path("framework"))
    number = call.number("attempt")
    shown = await load_attempt(call, summary, number) if number is not None else None
    if shown is None:
        raise no_attempt(call.path("attempt"), full_name(summary))
    return shown


async def find_error_logs(call: Call, shown: ShownAttempt) -> ErrorLogs:
    """Of the task whose program made the attempt fail."""
    outcome = shown.outcome
    if shown.exit is None or outcome is None or outcome.role is None or runtime_report(shown.exit) is None:
        return NOTHING
    tries = shown.tasks.get(outcome.role, {}).get(outcome.index if outcome.index is not None else -1)
    if not tries:
        return NOTHING
    chosen = Chosen(job=shown.summary, record=tries[-1], stream=Stream.MERGED)
    return await read_error_logs(call.services.logs, chosen)


def describe(shown: ShownAttempt, error_logs: ErrorLogs = NOTHING) -> dict[str, Any]:
    """The whole detail. Job fields tell of the newest attempt; attempt and app fields and tasks of the one shown."""
    summary = shown.summary
    return {
        "debugId": debug_id(summary.user, summary.name),
        "name": summary.name,
        "tags": tags_of(summary),
        "jobStatus": describe_status(shown, error_logs),
        "taskRoles": describe_roles(shown),
    }


def describe_status(shown: ShownAttempt, error_logs: ErrorLogs = NOTHING) -> dict[str, Any]:
    return {
        "username": shown.summary.user,
        **job_part(shown.summary),
        **describe_attempt(shown, error_logs),
        "virtualCluster": shown.summary.group,
    }


def describe_attempt(shown: ShownAttempt, error_logs: ErrorLogs = NOTHING) -> dict[str, Any]:
    return {
        "attemptId": shown.number,
        "attemptState": shown.state,
        "appId": f"{shown.number}_{attempt_uid(shown.summary.id, shown.number)}",
        "appProgress": 0 if shown.exit is None else 1,
        "appTrackingUrl": "",
        "appCreatedTime": millis(shown.created_at),
        "appLaunchedTime": millis(shown.started_at or shown.finished_at),
        "appCompletedTime": millis(shown.finished_at),
        **describe_exit(shown, error_logs),
    }


def describe_exit(shown: ShownAttempt, error_logs: ErrorLogs = NOTHING) -> dict[str, Any]:
    """The appExit fields; all empty until the attempt is over."""
    if shown.exit is None:
        return NO_EXIT
    role = shown.outcome.role if shown.outcome else None
    return app_exit(shown.exit, shown.outcome, shown.keys.get(role) if role else None, error_logs)


def describe_roles(shown: ShownAttempt) -> dict[str, Any]:
    return {
        shown.keys.get(role, role): {
            "taskRoleStatus": {"name": shown.keys.get(role, role)},
            "taskStatuses": [task_status(shown, tries) for tries in tasks.values()],
        }
        for role, tasks in shown.tasks.items()
    }
