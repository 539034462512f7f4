"""POST /v2/jobs: submit a job file of OpenPAI's protocol v2, as text."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import InvalidJob, NotFound, Problem, UserError
from holdfast.core.identity import build_framework_name
from holdfast.core.job import DEFAULT_GROUP, JobFormat
from holdfast.server.responses import respond_json
from holdfast.services.errors import DatasetNotFound, NameTaken, NotInGroup, TooManyRequests, Unavailable

from ..call import Call
from ..endpoints import endpoint
from ..errors import PaiError, error_to_line
from ..rate_limits import RateLimitedAction
from .problems import build_problem_body

_JSON_NOT_SUPPORTED = (
    "application/json is not supported for this endpoint. Send the same text as text/yaml or "
    "text/plain: JSON is YAML too."
)


@endpoint(
    "POST",
    "/v2/jobs",
    limited=RateLimitedAction.SUBMIT,
    note="text that is not YAML is rejected with 400 and its line; `problems` beside the message lists all problems; "
    "`warnings` lists warnings of an accepted job",
)
async def submit_job(call: Call) -> Response:
    user = call.actor.name
    try:
        text = await _read_job_text(call.request)
        made = await call.services.jobs.submit(call.actor, text, dialect=JobFormat.OPENPAI_V2, unique=True)
    except InvalidJob as invalid:
        return respond_json(build_problem_body(invalid), 400)
    except NameTaken as taken:
        message = f"Job {build_framework_name(user, taken.name)} already exists."
        raise PaiError(409, "ConflictJobError", message) from taken
    except (TooManyRequests, Unavailable):
        raise
    except UserError as refusal:
        raise translate_refusal(refusal, user) from refusal
    message = f"Update job {made.summary.name} for user {user} successfully."
    warnings = {"warnings": list(made.warnings)} if made.warnings else {}
    return respond_json({"status": 202, "message": message, **warnings}, 202)


def translate_refusal(refusal: UserError, user: str) -> PaiError:
    """Translate the rejection of a valid job file."""
    if isinstance(refusal, NotInGroup):
        message = f"User {user} is not allowed to do operation in {refusal.group}"
        return PaiError(403, "ForbiddenUserError", message)
    if isinstance(refusal, DatasetNotFound):
        return PaiError(404, "NoStorageError", refusal.message)
    if isinstance(refusal, NotFound):
        return PaiError(404, "NoVirtualClusterError", error_to_line(refusal))
    if refusal.field == "group":  # no group is set, and there is no default
        message = f"User {user} is not allowed to do operation in {DEFAULT_GROUP}. Set defaults.virtualCluster."
        return PaiError(403, "ForbiddenUserError", message)
    return PaiError(400, "InvalidProtocolError", error_to_line(refusal))


async def _read_job_text(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        raise PaiError(400, "InvalidProtocolError", _JSON_NOT_SUPPORTED)
    data = await request.body()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem("", "The file is not UTF-8 text", "Save it as UTF-8.", line, "syntax")
        raise InvalidJob([problem]) from None
