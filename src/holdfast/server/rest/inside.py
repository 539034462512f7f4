"""/jobs/{ref}/ssh, /jobs/{ref}/tickets, /ssh/keys: how to get inside tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import Request
from starlette.responses import Response

from holdfast.api import inside as api
from holdfast.core.errors import UserError
from holdfast.core.messages import join_messages, msg
from holdfast.services import Services
from holdfast.services.inside.service import Entrance
from holdfast.services.inside.ssh_gateway import SshGateway
from holdfast.services.inside.tickets import LASTS
from holdfast.services.refusals import Unavailable

from ..answers import answer
from ..auth import Ask, Caller, token_of
from ..origin import host_of
from .addresses import rest_router
from .schemas import Body
from .views import show_time

router = rest_router("entering")


@router.get("/jobs/{ref}/ssh", response_model=api.SshLines)
async def show_ssh(request: Request, ref: str, actor: Caller, services: Ask) -> Response:
    """The lines that lead into a job's tasks by SSH: those that run or are held, if one may enter them."""
    entrances = await services.entering.tasks(actor, ref)
    reason = services.ssh_gate.trouble or None
    if not entrances:
        reason = await _why_not(services, actor, ref)
    gate = services.ssh_gate
    key = await gate.find_key() if gate.is_open else None
    return answer({"items": show_lines(request, gate, entrances), "host_key": key, "reason": reason})


async def _why_not(services: Services, actor: Caller, ref: str) -> str | None:
    try:
        await services.entering.find(actor, ref)
    except UserError as error:
        return error.message + "." + (join_messages("", (" ", error.hint)) if error.hint else "")
    return None  # it began just now


@router.post("/ssh/keys", response_model=api.ShortKey, status_code=201)
async def add_short_key(request: Request, body: Body[api.NewShortKey], actor: Caller, services: Ask) -> Response:
    """A public key that opens the SSH gateway for whoever asks, for ten minutes; whoever is inside by then stays."""
    gate = services.ssh_gate
    if not gate.is_open:
        raise Unavailable(gate.trouble.rstrip(".") or msg("The SSH gateway is off"), hint=msg("See `holdfast doctor`."))
    until = await services.ssh_logins.remember(token_of(request), body["public_key"])
    where = {"host": gate.host(host_of(request)), "port": gate.public_port, "host_key": await gate.find_key()}
    return answer({**where, "expires_at": show_time(until)}, 201)


@router.post("/jobs/{ref}/tickets", response_model=api.Ticket, status_code=201)
async def add_ticket(request: Request, ref: str, actor: Caller, services: Ask) -> Response:
    """Shown once, within half a minute, in place of a login: `?ticket=` where a WebSocket leads into this job."""
    issued = await services.tickets.issue(token_of(request), ref)
    return answer({"ticket": issued.ticket, "expires_in": LASTS, "job": issued.job_id}, 201)


def show_lines(request: Request, gate: SshGateway, entrances: Iterable[Entrance]) -> list[dict[str, Any]]:
    """None while the gateway does not listen."""
    if not gate.is_open:
        return []
    reached_by = host_of(request)
    lines = [gate.line(entrance, reached_by) for entrance in entrances]
    return [
        {
            "task": line.task,
            "command": line.command,
            "user": line.user,
            "host": line.host,
            "port": line.port,
            "held": line.held,
        }
        for line in lines
    ]
