"""The history of a job's attempts, at the addresses that came before /attempts/<n>."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.identity import debug_id, framework_uid
from holdfast.core.records import TaskRecord
from holdfast.server.answers import answer_text

from ..big_answers import answer_big
from ..call import Call
from ..endpoints import Who, endpoint
from ..times import millis
from . import states
from .detail import describe_exit, find_attempt
from .exit_shapes import exit_code, exit_type
from .listing import PRIORITY_NAMES, sizes_of
from .lookup import find_framework
from .shown_attempt import ShownAttempt, load_every_attempt
from .task_shapes import container_part

_TASK_FIELDS = ("containerId", "containerIp", "containerGpus", "containerLog", "containerExitCode")


@endpoint("GET", "/v2/jobs/{framework}/job-attempts/healthz", who=Who.READER, note="history is always kept")
async def check_history(call: Call) -> Response:
    return answer_text("ok", "text/plain")


@endpoint("GET", "/v2/jobs/{framework}/job-attempts", who=Who.READER)
async def list_attempts(call: Call) -> Response:
    every = await load_every_attempt(call, await find_framework(call, call.path("framework")))
    tasks = sum(shown.task_count for shown in every)
    return await answer_big(lambda: [describe_try(shown) for shown in reversed(every)], tasks)  # newest first


@endpoint("GET", "/v2/jobs/{framework}/job-attempts/{attempt}", who=Who.READER)
async def get_attempt(call: Call) -> Response:
    shown = await find_attempt(call)
    return await answer_big(lambda: describe_try(shown), shown.task_count)


def describe_try(shown: ShownAttempt) -> dict[str, Any]:
    """One try of a whole job."""
    summary, exits = shown.summary, describe_exit(shown)
    return {
        "jobName": summary.name,
        "frameworkName": debug_id(summary.user, summary.name),
        "uid": framework_uid(summary.id),
        "userName": summary.user,
        "state": shown.state,
        "originState": _origin(shown),
        "attemptIndex": shown.number,
        "jobStartedTime": millis(summary.submitted_at),
        "attemptStartedTime": millis(shown.created_at),
        "attemptCompletedTime": millis(shown.finished_at),
        "exitCode": exit_code(shown.exit),
        "exitPhrase": exits["appExitSpec"] and exits["appExitSpec"]["phrase"],
        "exitType": exit_type(shown.exit) if shown.exit else None,
        "exitDiagnostics": _diagnostics(shown, exits),
        **{key: exits[key] for key in exits if key not in ("appExitCode", "appExitType")},
        **sizes_of(summary),
        "jobPriority": PRIORITY_NAMES.get(summary.priority),
        "taskRoles": _roles(shown),
        "isLatest": shown.newest,
    }


def _origin(shown: ShownAttempt) -> str:
    return states.job_sub_state(shown.summary) if shown.newest else "Completed"


def _diagnostics(shown: ShownAttempt, exits: dict[str, Any]) -> dict[str, Any] | None:
    if shown.exit is None:
        return None
    text = exits["appExitDiagnostics"]
    return {"diagnosticsSummary": text, "runtime": exits["appExitMessages"]["runtime"], "launcher": text}


def _roles(shown: ShownAttempt) -> dict[str, Any]:
    return {
        shown.keys.get(role, role): {
            "taskRoleStatus": {"name": shown.keys.get(role, role)},
            "taskStatuses": [_task(shown, tries[-1]) for tries in tasks.values()],
        }
        for role, tasks in shown.tasks.items()
    }


def _task(shown: ShownAttempt, record: TaskRecord) -> dict[str, Any]:
    container = container_part(shown, record)
    return {
        "taskIndex": record.task.index,
        "taskState": states.task_state(record.task),
        **{field: container[field] for field in _TASK_FIELDS},
    }
