"""POST /v2/jobs: a job file in OpenPAI's second protocol, as text."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import InvalidJob, NotFound, Problem, UserError
from holdfast.core.identity import framework_name
from holdfast.core.job import DEFAULT_GROUP, Dialect
from holdfast.server.answers import answer
from holdfast.services.refusals import NameTaken, NoDataset, NotInGroup, TooManyRequests, Unavailable

from ..call import Call
from ..endpoints import endpoint
from ..errors import PaiError, say
from ..rates import Limited
from .problems import tell

_AS_JSON = (
    "The job came as application/json, which this address does not take. Send the same text as text/yaml or "
    "text/plain: JSON is YAML too."
)


@endpoint(
    "POST",
    "/v2/jobs",
    limited=Limited.SUBMIT,
    note="text that is not YAML is refused with 400 and its line; `problems` beside the message has all that is wrong; "
    "`warnings`, where there are any, what to know of a job that was taken",
)
async def submit_job(call: Call) -> Response:
    user = call.actor.name
    try:
        text = await _job_text(call.request)
        made = await call.services.jobs.submit(call.actor, text, dialect=Dialect.OPENPAI_V2, unique=True)
    except InvalidJob as invalid:
        return answer(tell(invalid), 400)
    except NameTaken as taken:
        message = f"Job {framework_name(user, taken.name)} already exists."
        raise PaiError(409, "ConflictJobError", message) from taken
    except (TooManyRequests, Unavailable):
        raise
    except UserError as refusal:
        raise translate(refusal, user) from refusal
    message = f"Update job {made.summary.name} for user {user} successfully."
    warnings = {"warnings": list(made.warnings)} if made.warnings else {}
    return answer({"status": 202, "message": message, **warnings}, 202)


def translate(refusal: UserError, user: str) -> PaiError:
    """What is refused of a job that is well written."""
    if isinstance(refusal, NotInGroup):
        message = f"User {user} is not allowed to do operation in {refusal.group}"
        return PaiError(403, "ForbiddenUserError", message)
    if isinstance(refusal, NoDataset):
        return PaiError(404, "NoStorageError", refusal.message)
    if isinstance(refusal, NotFound):
        return PaiError(404, "NoVirtualClusterError", say(refusal))
    if refusal.field == "group":  # none is named, and there is no usual one
        message = f"User {user} is not allowed to do operation in {DEFAULT_GROUP}. Set defaults.virtualCluster."
        return PaiError(403, "ForbiddenUserError", message)
    return PaiError(400, "InvalidProtocolError", say(refusal))


async def _job_text(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        raise PaiError(400, "InvalidProtocolError", _AS_JSON)
    data = await request.body()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem("", "The file is not UTF-8 text", "Save it as UTF-8.", line, "syntax")
        raise InvalidJob([problem]) from None
