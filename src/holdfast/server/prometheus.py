"""GET /metrics: what Prometheus comes for. For admins, or for anybody with the setting metrics.open."""

from __future__ import annotations

import asyncio

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.services.installation.monitoring import Standing
from holdfast.services.metrics.server_metrics import Vitals

from .auth import actor_of, services_of
from .prometheus_metrics import Together, collect

PATH = "/metrics"
MAX_ACCEPT_LENGTH = 1000  # characters of the header that are looked at


def metrics_routes() -> list[BaseRoute]:
    return [Route(PATH, show_metrics, methods=["GET"])]


async def show_metrics(request: Request) -> Response:
    services = services_of(request)
    actor = None if services.monitoring.is_open else await actor_of(request)
    standing = await services.monitoring.standing(actor)
    accept = request.headers.get("accept", "")[:MAX_ACCEPT_LENGTH]
    return await asyncio.to_thread(render, services.vitals, standing, accept)


def render(vitals: Vitals, standing: Standing, accept: str) -> Response:
    try:
        encode, media_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encode, media_type = choose_encoder("")
    body = encode(Together(vitals.collect(), collect(standing)))
    return Response(body, headers={"content-type": media_type})
