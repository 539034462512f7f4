"""What can be done to a job: stop it, tag it. Only its owner and admins may."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.records import JobSummary
from holdfast.server.answers import answer
from holdfast.services.refusals import NoTag

from ..call import Call
from ..endpoints import endpoint
from ..errors import PaiError, telling
from .lookup import find_framework, full_name

MAX_TAG_LENGTH = 255


@endpoint(
    "PUT",
    "/v2/jobs/{framework}/executionType",
    note="START is accepted and changes nothing: what was stopped stays stopped",
)
async def set_execution_type(call: Call) -> Response:
    summary = await find_framework(call, call.path("framework"))
    check_owner(call, summary)
    await execute(call, summary, (await call.body()).get("value"))
    return answer({"status": 202, "message": f"Execute job {full_name(summary)} successfully."}, 202)


@endpoint("PUT", "/v2/jobs/{framework}/tag")
async def add_tag(call: Call) -> Response:
    summary = await find_framework(call, call.path("framework"))
    check_owner(call, summary)
    tag = await _read_tag(call)
    await call.services.jobs.tag(call.actor, summary.id, tag)
    return answer({"status": 200, "message": f"Add tag {tag} for job {full_name(summary)} successfully."})


@endpoint("DELETE", "/v2/jobs/{framework}/tag", note="the tag is in the body")
async def remove_tag(call: Call) -> Response:
    summary = await find_framework(call, call.path("framework"))
    check_owner(call, summary)
    tag = await _read_tag(call)
    with telling((NoTag, 404, "NoTagError", f"Tag {tag} is not found for job {full_name(summary)}.")):
        await call.services.jobs.untag(call.actor, summary.id, tag)
    return answer({"status": 200, "message": f"Delete tag {tag} from job {full_name(summary)} successfully."})


def check_owner(call: Call, summary: JobSummary) -> None:
    if not call.actor.admin and call.actor.name != summary.user:
        message = f"User {call.actor.name} is not allowed to change job {full_name(summary)}: it is another user's."
        raise PaiError(403, "ForbiddenUserError", message)


async def execute(call: Call, summary: JobSummary, value: object) -> None:
    """STOP stops it; START is for a job that was never stopped, so there is nothing to do."""
    if value not in ("STOP", "START"):
        raise PaiError(400, "InvalidParametersError", "value must be START or STOP.")
    if value == "STOP":
        await call.services.jobs.stop(call.actor, summary.id)


async def _read_tag(call: Call) -> str:
    tag = (await call.body()).get("value")
    if not isinstance(tag, str) or not 0 < len(tag) <= MAX_TAG_LENGTH or "," in tag or not tag.isprintable():
        message = f"value must be a tag: 1 to {MAX_TAG_LENGTH} printable characters without a comma."
        raise PaiError(400, "InvalidParametersError", message)
    return tag
