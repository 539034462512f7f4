"""The attempts of a job, at the older endpoints that /attempts/<n> replaced."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.identity import build_debug_id, build_framework_uid
from holdfast.core.records import TaskRecord
from holdfast.server.responses import respond_text

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..large_responses import respond_large_json
from ..times import to_milliseconds
from . import states
from .detail import build_exit_fields, build_task_roles, load_named_attempt
from .exit_shapes import get_exit_code, get_exit_type
from .listing import PRIORITY_NAMES, build_resource_fields
from .lookup import find_job_by_framework
from .shown_attempt import ShownAttempt, load_attempts
from .task_shapes import build_container_fields

_TASK_FIELDS = ("containerId", "containerIp", "containerGpus", "containerLog", "containerExitCode")


@endpoint("GET", "/v2/jobs/{framework}/job-attempts/healthz", who=AccessLevel.READER, note="history is always kept")
async def check_history_health(call: Call) -> Response:
    return respond_text("ok", "text/plain")


@endpoint("GET", "/v2/jobs/{framework}/job-attempts", who=AccessLevel.READER)
async def list_attempts(call: Call) -> Response:
    every = await load_attempts(call, await find_job_by_framework(call, call.get_path_text("framework")))
    tasks = sum(shown.task_count for shown in every)
    return await respond_large_json(
        lambda: [attempt_to_json(shown) for shown in reversed(every)], tasks
    )  # newest first


@endpoint("GET", "/v2/jobs/{framework}/job-attempts/{attempt}", who=AccessLevel.READER)
async def get_attempt(call: Call) -> Response:
    shown = await load_named_attempt(call)
    return await respond_large_json(lambda: attempt_to_json(shown), shown.task_count)


def attempt_to_json(shown: ShownAttempt) -> dict[str, Any]:
    summary, exits = shown.summary, build_exit_fields(shown)
    return {
        "jobName": summary.name,
        "frameworkName": build_debug_id(summary.user, summary.name),
        "uid": build_framework_uid(summary.id),
        "userName": summary.user,
        "state": shown.state,
        "originState": _get_sub_state(shown),
        "attemptIndex": shown.number,
        "jobStartedTime": to_milliseconds(summary.submitted_at),
        "attemptStartedTime": to_milliseconds(shown.created_at),
        "attemptCompletedTime": to_milliseconds(shown.finished_at),
        "exitCode": get_exit_code(shown.exit),
        "exitPhrase": exits["appExitSpec"] and exits["appExitSpec"]["phrase"],
        "exitType": get_exit_type(shown.exit) if shown.exit else None,
        "exitDiagnostics": _build_diagnostics(shown, exits),
        **{key: exits[key] for key in exits if key not in ("appExitCode", "appExitType")},
        **build_resource_fields(summary),
        "jobPriority": PRIORITY_NAMES.get(summary.priority),
        "taskRoles": build_task_roles(shown, lambda tries: _task_to_json(shown, tries[-1])),
        "isLatest": shown.is_newest,
    }


def _get_sub_state(shown: ShownAttempt) -> str:
    return states.get_job_sub_state(shown.summary) if shown.is_newest else "Completed"


def _build_diagnostics(shown: ShownAttempt, exits: dict[str, Any]) -> dict[str, Any] | None:
    if shown.exit is None:
        return None
    text = exits["appExitDiagnostics"]
    return {"diagnosticsSummary": text, "runtime": exits["appExitMessages"]["runtime"], "launcher": text}


def _task_to_json(shown: ShownAttempt, record: TaskRecord) -> dict[str, Any]:
    container = build_container_fields(shown, record)
    return {
        "taskIndex": record.task.index,
        "taskState": states.get_task_state(record.task),
        **{field: container[field] for field in _TASK_FIELDS},
    }
