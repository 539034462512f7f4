"""/jobs/{ref}/ssh, /jobs/{ref}/tickets, /ssh/keys: shell access to tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import Request
from starlette.responses import Response

from holdfast.api import inside as api
from holdfast.core.errors import UserError
from holdfast.core.messages import join_messages, msg
from holdfast.services import Services
from holdfast.services.errors import Unavailable
from holdfast.services.inside.service import ExecTarget
from holdfast.services.inside.ssh_gateway import SshGateway
from holdfast.services.inside.tickets import TICKET_LIFETIME

from ..auth import Caller, ServicesDep, read_request_token
from ..origin import get_host
from ..responses import respond_json
from .routing import build_router
from .schemas import Body
from .views import format_time, record_to_json

router = build_router("entering")


@router.get("/jobs/{ref}/ssh", response_model=api.SshCommandList)
async def show_ssh(request: Request, ref: str, actor: Caller, services: ServicesDep) -> Response:
    """The SSH commands for a job's tasks that are running or on hold, if you have shell access to them."""
    entrances = await services.task_access.list_targets(actor, ref)
    reason = services.ssh_gateway.trouble or None
    if not entrances:
        reason = await _explain_no_ssh(services, actor, ref)
    gate = services.ssh_gateway
    key = await gate.load_host_key() if gate.is_open else None
    return respond_json({"items": list_ssh_commands(request, gate, entrances), "host_key": key, "reason": reason})


async def _explain_no_ssh(services: Services, actor: Caller, ref: str) -> str | None:
    try:
        await services.task_access.find_target(actor, ref)
    except UserError as error:
        return error.message + "." + (join_messages("", (" ", error.hint)) if error.hint else "")
    return None  # it has just started


@router.post("/ssh/keys", response_model=api.TemporaryKey, status_code=201)
async def add_temporary_key(
    request: Request, body: Body[api.NewTemporaryKey], actor: Caller, services: ServicesDep
) -> Response:
    """Add a public key that opens the SSH gateway for you for ten minutes; open connections stay open."""
    gate = services.ssh_gateway
    if not gate.is_open:
        raise Unavailable(
            gate.trouble.rstrip(".") or msg("The SSH gateway is disabled"),
            hint=msg("Use `holdfast exec JOB` instead. For details, run `holdfast doctor`."),
        )
    until = await services.ssh_logins.register_key(read_request_token(request), body["public_key"])
    where = {
        "host": gate.resolve_host(get_host(request)),
        "port": gate.public_port,
        "host_key": await gate.load_host_key(),
    }
    return respond_json({**where, "expires_at": format_time(until)}, 201)


@router.post("/jobs/{ref}/tickets", response_model=api.Ticket, status_code=201)
async def add_ticket(request: Request, ref: str, actor: Caller, services: ServicesDep) -> Response:
    """Create a ticket, valid once within 30 seconds, for `?ticket=` instead of a login for this job's WebSockets."""
    issued = await services.tickets.issue(read_request_token(request), ref)
    return respond_json({"ticket": issued.ticket, "expires_in": TICKET_LIFETIME, "job": issued.job_id}, 201)


def list_ssh_commands(request: Request, gate: SshGateway, entrances: Iterable[ExecTarget]) -> list[dict[str, Any]]:
    """Return the SSH commands; none while the gateway does not listen."""
    if not gate.is_open:
        return []
    reached_by = get_host(request)
    return [record_to_json(api.SshCommand, gate.build_command(entrance, reached_by)) for entrance in entrances]
