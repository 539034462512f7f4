"""/health, /version, /capacity, /status."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from holdfast import __version__
from holdfast.api import server as api

from ..answers import answer
from ..auth import Ask, Caller
from ..origin import host_of
from .addresses import rest_router
from .views import show_condition, show_engine, show_group_use, show_node, show_time

router = rest_router("place")


@router.get("/health", response_model=api.Health)
async def show_health(services: Ask) -> Response:
    """Without login. Always 200 when the server answers at all; `status` says whether its parts do."""
    health = await services.place.health()
    return answer(
        {
            "status": "ok" if health.well else "degraded",
            "notes": list(health.notes),
            "conditions": [show_condition(condition) for condition in health.conditions],
        }
    )


@router.get("/version", response_model=api.Version)
async def show_version() -> Response:
    """Without login."""
    return answer({"name": "holdfast", "version": __version__, "api": "v1"})


@router.get("/identity", response_model=api.Identity)
async def prove_identity(
    services: Ask,
    token: Annotated[str, Query(max_length=64, description="Id of the token: its part between hf_ and the next _.")],
    nonce: Annotated[str, Query(min_length=32, max_length=128, pattern="^[0-9A-Za-z_-]+$")],
) -> Response:
    """Without login. Proves that this server knows a token, so that a client need not send it to anything else. The
    proof is the HMAC-SHA256 of `holdfast server proof`, a zero byte and the nonce; its key is the SHA-256 of the
    token's secret, in hex."""
    return answer({"proof": await services.tokens.prove(token, nonce)})


@router.get("/capacity", response_model=api.Capacity)
async def show_capacity(actor: Caller, services: Ask) -> Response:
    """What the machines have, what is free, and what one's groups use of their quotas."""
    capacity = await services.place.capacity(actor)
    return answer(
        {
            "nodes": [show_node(use) for use in capacity.nodes],
            "groups": [show_group_use(use) for use in capacity.groups],
            "engine": show_engine(capacity.engine),
        }
    )


@router.get("/status", response_model=api.Status)
async def show_status(request: Request, actor: Caller, services: Ask) -> Response:
    status, gate = await services.place.status(actor), services.ssh_gate
    return answer(
        {
            "version": status.version,
            "pid": status.pid,
            "started_at": show_time(status.started_at),
            "url": str(request.base_url).rstrip("/"),
            "home": str(status.home) if status.home is not None else None,
            "jobs": status.jobs,
            "queue": status.queue,
            "engine": show_engine(status.engine),
            "conditions": [show_condition(condition, admin=actor.admin) for condition in status.conditions],
            "ssh": {
                "enabled": gate.settings.enabled,
                "host": gate.host(host_of(request)) if gate.is_open else None,
                "port": gate.public_port if gate.is_open else None,
                "trouble": gate.trouble or None,
            },
        }
    )
