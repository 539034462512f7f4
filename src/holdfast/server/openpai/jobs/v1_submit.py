"""POST and PUT below /v1/user/<user>/jobs: submit jobs of OpenPAI's protocol v1."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.errors import InvalidJob, NotFound, UserError
from holdfast.core.job import DEFAULT_GROUP, JobFormat
from holdfast.server.responses import respond_json
from holdfast.services.errors import NameTaken, NotInGroup, TooManyRequests, Unavailable
from holdfast.services.jobs.service import SubmitResult

from ..call import Call
from ..endpoints import endpoint
from ..errors import PaiError, error_to_line
from ..rate_limits import RateLimitedAction
from .problems import problem_to_json, problem_to_sentence
from .v1_configs import read_job_config

_OBSOLETE_FIELD = "killAllOnCompletedTaskNumber"
_MAX_PROBLEMS = 5  # problems in one message


@endpoint(
    "POST",
    "/v1/user/{user}/jobs",
    limited=RateLimitedAction.SUBMIT,
    note="a v1 config as JSON or as a form; users can submit only their own jobs",
)
async def submit_config(call: Call) -> Response:
    return await _submit_config(call, None)


@endpoint("PUT", "/v1/user/{user}/jobs/{job}", limited=RateLimitedAction.SUBMIT, note="as POST; jobName can be omitted")
async def put_config(call: Call) -> Response:
    return await _submit_config(call, call.get_path_text("job"))


async def _submit_config(call: Call, name: str | None) -> Response:
    user = call.actor.name
    if call.get_path_text("user") != user:
        message = f"User {user} is not allowed to submit jobs as {call.get_path_text('user')[:255]}."
        raise PaiError(403, "ForbiddenUserError", message)
    text = await read_job_config(call.request, name)
    try:
        made = await call.services.jobs.submit(call.actor, text, dialect=JobFormat.OPENPAI_V1, unique=True)
    except InvalidJob as invalid:
        return respond_json(_build_problem_body(invalid), 400)
    except (TooManyRequests, Unavailable):
        raise
    except UserError as refusal:
        raise await _translate_refusal(call, refusal) from refusal
    return _respond_accepted(made)


def _respond_accepted(made: SubmitResult) -> Response:
    job = made.summary
    response = respond_json({"message": f"update job {job.name} successfully"}, 202)
    response.headers["Location"] = f"/rest-server/api/v1/user/{quote(job.user)}/jobs/{quote(job.name)}"
    if any(warning.startswith(_OBSOLETE_FIELD) for warning in made.warnings):
        response.headers["X-Warning"] = f"{_OBSOLETE_FIELD} is obsolete: it is ignored"
    return response


def _build_problem_body(invalid: InvalidJob) -> dict[str, object]:
    problems = invalid.problems
    sentences = [
        " ".join(filter(None, (problem_to_sentence(problem), problem.hint))) for problem in problems[:_MAX_PROBLEMS]
    ]
    if len(problems) > len(sentences):
        sentences.append(f"And {len(problems) - len(sentences)} more.")
    shown = [problem_to_json(problem) for problem in problems]
    return {"code": "InvalidParametersError", "message": "\n".join(sentences), "problems": shown}


async def _translate_refusal(call: Call, refusal: UserError) -> PaiError:
    if isinstance(refusal, NameTaken):
        return PaiError(409, "ConflictJobError", f"Job name {refusal.name} already exists")
    if isinstance(refusal, NotInGroup):
        return await _build_no_group_error(call, refusal.group)
    if refusal.field == "group":  # no group is set, and there is no default
        message = f"Virtual cluster {DEFAULT_GROUP} is not found. Set virtualCluster to one of your groups."
        return PaiError(404, "NoVirtualClusterError", message)
    return PaiError(400, "InvalidParametersError", error_to_line(refusal))


async def _build_no_group_error(call: Call, group: str) -> PaiError:
    """Return the error for a group. A group that the user cannot see is not found."""
    try:
        await call.services.groups.get(call.actor, group)
    except NotFound:
        return PaiError(404, "NoVirtualClusterError", f"Virtual cluster {group[:255]} is not found.")
    message = f"User {call.actor.name} is not allowed to do operation in {group[:255]}"
    return PaiError(403, "ForbiddenUserError", message)
