"""One task of one attempt, with every try of it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.server.answers import answer

from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError
from .detail import find_attempt
from .lookup import find_role
from .shown_attempt import ShownAttempt, Tries
from .task_shapes import container_part, task_part, try_part


@endpoint(
    "GET",
    "/v2/jobs/{framework}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts",
    who=Who.READER,
    note="the role may be spelled as in the job file, too",
)
async def get_task(call: Call) -> Response:
    shown = await find_attempt(call)
    return answer(describe_task(shown, find_tries(call, shown)))


def find_tries(call: Call, shown: ShownAttempt) -> Tries:
    """Of the task that an address names."""
    role, index = find_role(shown.job, call.path("role")), call.number("index")
    tries = shown.tasks.get(role, {}).get(index) if role is not None and index is not None else None
    if not tries:
        name = f"{call.path('role')[:100]}-{call.path('index')[:20]}"
        message = f"Task {name} is not found in attempt {shown.number} of {shown.framework}."
        raise PaiError(404, "NoJobError", message)
    return tries


def describe_task(shown: ShownAttempt, tries: Tries) -> dict[str, Any]:
    role = tries[-1].task.role
    return {
        "username": shown.summary.user,
        "jobName": shown.summary.name,
        "jobAttemptId": shown.number,
        "taskRoleName": shown.keys.get(role, role),
        **task_part(shown, tries),
        "attempts": [{**try_part(shown, each), **container_part(shown, each)} for each in reversed(tries)],
    }
