"""Actions on a job: stop it, tag it. Only its owner and admins can."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.records import JobSummary
from holdfast.server.responses import respond_json
from holdfast.services.errors import TagNotFound

from ..call import Call
from ..endpoints import endpoint
from ..errors import PaiError, translate_errors
from .lookup import find_job_by_framework, get_framework_name

MAX_TAG_LENGTH = 255


@endpoint(
    "PUT",
    "/v2/jobs/{framework}/executionType",
    note="START is accepted and ignored: a stopped job cannot be started again",
)
async def set_execution_type(call: Call) -> Response:
    summary = await find_job_by_framework(call, call.get_path_text("framework"))
    check_job_owner(call, summary)
    await apply_execution_type(call, summary, (await call.read_json_object()).get("value"))
    return respond_json({"status": 202, "message": f"Execute job {get_framework_name(summary)} successfully."}, 202)


@endpoint("PUT", "/v2/jobs/{framework}/tag")
async def add_tag(call: Call) -> Response:
    summary = await find_job_by_framework(call, call.get_path_text("framework"))
    check_job_owner(call, summary)
    tag = await _read_tag(call)
    await call.services.jobs.tag(call.actor, summary.id, tag)
    return respond_json(
        {"status": 200, "message": f"Add tag {tag} for job {get_framework_name(summary)} successfully."}
    )


@endpoint("DELETE", "/v2/jobs/{framework}/tag", note="the tag is in the body")
async def remove_tag(call: Call) -> Response:
    summary = await find_job_by_framework(call, call.get_path_text("framework"))
    check_job_owner(call, summary)
    tag = await _read_tag(call)
    with translate_errors(
        (TagNotFound, 404, "NoTagError", f"Tag {tag} is not found for job {get_framework_name(summary)}.")
    ):
        await call.services.jobs.untag(call.actor, summary.id, tag)
    return respond_json(
        {"status": 200, "message": f"Delete tag {tag} from job {get_framework_name(summary)} successfully."}
    )


def check_job_owner(call: Call, summary: JobSummary) -> None:
    if not call.actor.admin and call.actor.name != summary.user:
        message = f"User {call.actor.name} is not allowed to change job {get_framework_name(summary)} of another user."
        raise PaiError(403, "ForbiddenUserError", message)


async def apply_execution_type(call: Call, summary: JobSummary, value: object) -> None:
    """STOP stops the job. START does nothing: the job was not stopped."""
    if value not in ("STOP", "START"):
        raise PaiError(400, "InvalidParametersError", "value must be START or STOP.")
    if value == "STOP":
        await call.services.jobs.stop(call.actor, summary.id)


async def _read_tag(call: Call) -> str:
    tag = (await call.read_json_object()).get("value")
    if not isinstance(tag, str) or not 0 < len(tag) <= MAX_TAG_LENGTH or "," in tag or not tag.isprintable():
        message = f"value must be a tag: 1 to {MAX_TAG_LENGTH} printable characters without a comma."
        raise PaiError(400, "InvalidParametersError", message)
    return tag
