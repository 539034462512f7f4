"""GET /v2/jobs/<user>~<job>/ssh: SSH access to a job's tasks."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.identity import build_container_uid
from holdfast.core.records import JobSummary
from holdfast.services.inside.service import ExecTarget

from ...origin import get_host
from ...responses import respond_json
from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError
from .lookup import find_job_by_framework, get_framework_name

# OpenPAI had a key pair to download. Users of Holdfast have their own keys.
_EMPTY_KEY_PAIR = {
    "folderPath": "",
    "publicKeyFileName": "",
    "privateKeyFileName": "",
    "privateKeyDirectDownloadLink": "",
}


@endpoint(
    "GET",
    "/v2/jobs/{framework}/ssh",
    who=AccessLevel.READER,
    note="tasks that run or are on hold, for users with shell access; adds sshUser and sshCommand. The keys are "
    "the user's own, so keyPair is empty. Otherwise 404 NoJobSshInfoError with the reason",
)
async def get_ssh_info(call: Call) -> Response:
    return await respond_ssh_info(call, await find_job_by_framework(call, call.get_path_text("framework")))


async def respond_ssh_info(call: Call, summary: JobSummary) -> Response:
    gate = call.services.ssh_gateway
    entrances = (
        call.services.task_access.list_job_targets(call.actor, summary) if gate.is_open and not call.is_guest else []
    )
    if not entrances:
        raise await _build_no_ssh_error(call, summary)
    return respond_json(
        {"containers": [_container_to_json(call, entrance) for entrance in entrances], "keyPair": _EMPTY_KEY_PAIR}
    )


def _container_to_json(call: Call, entrance: ExecTarget) -> dict[str, Any]:
    line = call.services.ssh_gateway.build_command(entrance, get_host(call.request))
    return {
        "id": build_container_uid(entrance.attempt_id),
        "sshIp": line.host,
        "sshPort": str(line.port),
        "sshUser": line.user,
        "sshCommand": line.command,
    }


async def _build_no_ssh_error(call: Call, summary: JobSummary) -> PaiError:
    why = call.services.ssh_gateway.trouble or "The SSH gateway is disabled."
    if call.services.ssh_gateway.is_open:
        why = "Log in first." if call.is_guest else await _explain_no_ssh(call, summary)
    return PaiError(404, "NoJobSshInfoError", f"SSH info of job {get_framework_name(summary)} is not found: {why}")


async def _explain_no_ssh(call: Call, summary: JobSummary) -> str:
    try:
        await call.services.task_access.find_target(call.actor, summary.id)
    except UserError as error:
        return f"{error.message}."
    return "it has just started; try again."
