"""One task of one attempt, with all its tries."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.server.responses import respond_json

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError
from .detail import load_named_attempt
from .lookup import find_role
from .shown_attempt import ShownAttempt, Tries
from .task_shapes import build_container_fields, build_task_fields, build_try_fields


@endpoint(
    "GET",
    "/v2/jobs/{framework}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts",
    who=AccessLevel.READER,
    note="the role can also be spelled as in the job file",
)
async def get_task(call: Call) -> Response:
    shown = await load_named_attempt(call)
    return respond_json(task_to_json(shown, get_task_tries(call, shown)))


def get_task_tries(call: Call, shown: ShownAttempt) -> Tries:
    """Return the tries of the task that the URL names."""
    role, index = find_role(shown.job, call.get_path_text("role")), call.get_path_number("index")
    tries = shown.tasks.get(role, {}).get(index) if role is not None and index is not None else None
    if not tries:
        name = f"{call.get_path_text('role')[:100]}-{call.get_path_text('index')[:20]}"
        message = f"Task {name} is not found in attempt {shown.number} of {shown.framework}."
        raise PaiError(404, "NoJobError", message)
    return tries


def task_to_json(shown: ShownAttempt, tries: Tries) -> dict[str, Any]:
    role = tries[-1].task.role
    return {
        "username": shown.summary.user,
        "jobName": shown.summary.name,
        "jobAttemptId": shown.number,
        "taskRoleName": shown.role_keys.get(role, role),
        **build_task_fields(shown, tries),
        "attempts": [
            {**build_try_fields(shown, each), **build_container_fields(shown, each)} for each in reversed(tries)
        ],
    }
