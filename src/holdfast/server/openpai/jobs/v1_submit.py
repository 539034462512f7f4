"""POST and PUT below /v1/user/<user>/jobs: jobs in OpenPAI's first protocol."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.errors import InvalidJob, NotFound, UserError
from holdfast.core.job import DEFAULT_GROUP, Dialect
from holdfast.server.answers import answer
from holdfast.services.jobs.service import Submitted
from holdfast.services.refusals import NameTaken, NotInGroup, TooManyRequests, Unavailable

from ..call import Call
from ..endpoints import endpoint
from ..errors import PaiError, say
from ..rates import Limited
from .problems import sentence, show
from .v1_configs import read_config

_OBSOLETE = "killAllOnCompletedTaskNumber"
_MAX_TOLD = 5  # problems in one message


@endpoint(
    "POST",
    "/v1/user/{user}/jobs",
    limited=Limited.SUBMIT,
    note="a v1 config as JSON or as a form; a job is submitted by its own user only",
)
async def submit_config(call: Call) -> Response:
    return await _submit(call, None)


@endpoint("PUT", "/v1/user/{user}/jobs/{job}", limited=Limited.SUBMIT, note="as POST; the config may leave jobName out")
async def put_config(call: Call) -> Response:
    return await _submit(call, call.path("job"))


async def _submit(call: Call, name: str | None) -> Response:
    user = call.actor.name
    if call.path("user") != user:
        message = f"User {user} is not allowed to submit jobs as {call.path('user')[:255]}."
        raise PaiError(403, "ForbiddenUserError", message)
    text = await read_config(call.request, name)
    try:
        made = await call.services.jobs.submit(call.actor, text, dialect=Dialect.OPENPAI_V1, unique=True)
    except InvalidJob as invalid:
        return answer(_tell(invalid), 400)
    except (TooManyRequests, Unavailable):
        raise
    except UserError as refusal:
        raise await _translate(call, refusal) from refusal
    return _accepted(made)


def _accepted(made: Submitted) -> Response:
    job = made.summary
    response = answer({"message": f"update job {job.name} successfully"}, 202)
    response.headers["Location"] = f"/rest-server/api/v1/user/{quote(job.user)}/jobs/{quote(job.name)}"
    if any(warning.startswith(_OBSOLETE) for warning in made.warnings):
        response.headers["X-Warning"] = f"{_OBSOLETE} is obsolete: it is ignored"
    return response


def _tell(invalid: InvalidJob) -> dict[str, object]:
    problems = invalid.problems
    told = [" ".join(filter(None, (sentence(problem), problem.hint))) for problem in problems[:_MAX_TOLD]]
    if len(problems) > len(told):
        told.append(f"And {len(problems) - len(told)} more.")
    shown = [show(problem) for problem in problems]
    return {"code": "InvalidParametersError", "message": "\n".join(told), "problems": shown}


async def _translate(call: Call, refusal: UserError) -> PaiError:
    if isinstance(refusal, NameTaken):
        return PaiError(409, "ConflictJobError", f"Job name {refusal.name} already exists")
    if isinstance(refusal, NotInGroup):
        return await _no_group(call, refusal.group)
    if refusal.field == "group":  # none is named, and there is no usual one
        message = f"Virtual cluster {DEFAULT_GROUP} is not found. Name one of yours as virtualCluster."
        return PaiError(404, "NoVirtualClusterError", message)
    return PaiError(400, "InvalidParametersError", say(refusal))


async def _no_group(call: Call, group: str) -> PaiError:
    """A group that one cannot see is not there."""
    try:
        await call.services.groups.get(call.actor, group)
    except NotFound:
        return PaiError(404, "NoVirtualClusterError", f"Virtual cluster {group[:255]} is not found.")
    message = f"User {call.actor.name} is not allowed to do operation in {group[:255]}"
    return PaiError(403, "ForbiddenUserError", message)
