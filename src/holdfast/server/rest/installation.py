"""/health, /version, /capacity, /status."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from holdfast import __version__
from holdfast.api import server as api

from ..auth import Caller, ServicesDep
from ..origin import get_host
from ..responses import respond_json
from .routing import build_router
from .views import condition_to_json, group_usage_to_json, node_usage_to_json, record_to_json, respond_record

router = build_router("installation")


@router.get("/health", response_model=api.Health)
async def show_health(services: ServicesDep) -> Response:
    """Without login. Always 200 while the server responds; `status` shows whether its components work."""
    health = await services.installation.check_health()
    return respond_json(
        {
            "status": "ok" if health.is_healthy else "degraded",
            "notes": list(health.notes),
            "conditions": [condition_to_json(condition) for condition in health.conditions],
        }
    )


@router.get("/version", response_model=api.Version)
async def show_version() -> Response:
    """Without login."""
    return respond_json({"name": "holdfast", "version": __version__, "api": "v1"})


@router.get("/identity", response_model=api.Identity)
async def prove_identity(
    services: ServicesDep,
    token: Annotated[str, Query(max_length=64, description="ID of the token: the part between hf_ and the next _.")],
    nonce: Annotated[str, Query(min_length=32, max_length=128, pattern="^[0-9A-Za-z_-]+$")],
) -> Response:
    """Without login. Proves that this server knows a token, so that a client need not send the token to other servers.
    The proof is the HMAC-SHA256 of `holdfast server proof`, a zero byte and the nonce; its key is the SHA-256 of the
    token's secret, in hex."""
    return respond_json({"proof": await services.tokens.prove_token(token, nonce)})


@router.get("/capacity", response_model=api.Capacity)
async def show_capacity(actor: Caller, services: ServicesDep) -> Response:
    """Total and free capacity of the nodes, and the quota usage of your groups."""
    capacity = await services.installation.get_capacity(actor)
    return respond_json(
        {
            "nodes": [node_usage_to_json(use) for use in capacity.nodes],
            "groups": [group_usage_to_json(use) for use in capacity.groups],
            "engine": record_to_json(api.Engine, capacity.engine),
        }
    )


@router.get("/status", response_model=api.Status)
async def show_status(request: Request, actor: Caller, services: ServicesDep) -> Response:
    status, gate = await services.installation.get_status(actor), services.ssh_gateway
    ssh = {
        "enabled": gate.settings.enabled,
        "host": gate.resolve_host(get_host(request)) if gate.is_open else None,
        "port": gate.public_port if gate.is_open else None,
        "trouble": gate.trouble or None,
    }
    return respond_record(
        api.Status,
        status,
        url=str(request.base_url).rstrip("/"),
        home=str(status.home) if status.home is not None else None,
        conditions=[condition_to_json(condition, admin=actor.admin) for condition in status.conditions],
        ssh=ssh,
    )
