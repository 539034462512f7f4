"""GET /v2/jobs/<user>~<job>/ssh: how to log in to a job's tasks."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.identity import container_uid
from holdfast.core.records import JobSummary
from holdfast.services.inside.service import Entrance

from ...answers import answer
from ...origin import host_of
from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError
from .lookup import find_framework, full_name

# A pair to download belonged to it once. Here people come with keys of their own.
_NO_PAIR = {
    "folderPath": "",
    "publicKeyFileName": "",
    "privateKeyFileName": "",
    "privateKeyDirectDownloadLink": "",
}


@endpoint(
    "GET",
    "/v2/jobs/{framework}/ssh",
    who=Who.READER,
    note="tasks that run or are held, for those who may enter them, with sshUser and sshCommand besides; the keys are "
    "the user's own, so keyPair is empty. Else 404 NoJobSshInfoError, which says why",
)
async def get_ssh(call: Call) -> Response:
    return await answer_ssh(call, await find_framework(call, call.path("framework")))


async def answer_ssh(call: Call, summary: JobSummary) -> Response:
    gate = call.services.ssh_gate
    entrances = call.services.entering.tasks_of(call.actor, summary) if gate.is_open and not call.guest else []
    if not entrances:
        raise await _no_ssh_info(call, summary)
    return answer({"containers": [_container(call, entrance) for entrance in entrances], "keyPair": _NO_PAIR})


def _container(call: Call, entrance: Entrance) -> dict[str, Any]:
    line = call.services.ssh_gate.line(entrance, host_of(call.request))
    return {
        "id": container_uid(entrance.attempt_id),
        "sshIp": line.host,
        "sshPort": str(line.port),
        "sshUser": line.user,
        "sshCommand": line.command,
    }


async def _no_ssh_info(call: Call, summary: JobSummary) -> PaiError:
    why = call.services.ssh_gate.trouble or "The SSH gateway is off."
    if call.services.ssh_gate.is_open:
        why = "Log in first." if call.guest else await _why_not(call, summary)
    return PaiError(404, "NoJobSshInfoError", f"SSH info of job {full_name(summary)} is not found: {why}")


async def _why_not(call: Call, summary: JobSummary) -> str:
    try:
        await call.services.entering.find(call.actor, summary.id)
    except UserError as error:
        return f"{error.message}."
    return "it began just now, try again."
