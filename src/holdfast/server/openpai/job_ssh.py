"""GET /v2/jobs/<user>~<job>/ssh: how to log in to a job's tasks with a key pair of its own."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.records import JobSummary

from .call import Call
from .endpoints import Support, Who, endpoint
from .errors import PaiError
from .finding import find_framework, full_name


@endpoint(
    "GET",
    "/v2/jobs/{framework}/ssh",
    who=Who.READER,
    support=Support.EMPTY,
    note="always 404 NoJobSshInfoError, as in OpenPAI 1.x: the key pair of a job is for its tasks alone",
)
async def get_ssh(call: Call) -> Response:
    summary = await find_framework(call, call.path("framework"))
    raise no_ssh_info(summary)


def no_ssh_info(summary: JobSummary) -> PaiError:
    message = (
        f"SSH info of job {full_name(summary)} is not found: the key pair of a job is for its tasks alone. "
        "With the ssh plugin and a key of yours, log in as root at containerIp and the ssh port in containerPorts."
    )
    return PaiError(404, "NoJobSshInfoError", message)
