"""GET /metrics for Prometheus: for admins, or for everyone with the setting metrics.open."""

from __future__ import annotations

import asyncio

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.services.installation.monitoring import MonitoringSnapshot
from holdfast.services.metrics.server_metrics import ServerMetrics

from .auth import authenticate_request, get_services
from .prometheus_metrics import CombinedCollector, collect_metrics

METRICS_PATH = "/metrics"
MAX_ACCEPT_LENGTH = 1000  # characters of the header that are parsed


def build_metrics_routes() -> list[BaseRoute]:
    return [Route(METRICS_PATH, show_metrics, methods=["GET"])]


async def show_metrics(request: Request) -> Response:
    services = get_services(request)
    actor = None if services.monitoring.is_open else await authenticate_request(request)
    standing = await services.monitoring.take_snapshot(actor)
    accept = request.headers.get("accept", "")[:MAX_ACCEPT_LENGTH]
    return await asyncio.to_thread(render_metrics, services.server_metrics, standing, accept)


def render_metrics(vitals: ServerMetrics, standing: MonitoringSnapshot, accept: str) -> Response:
    try:
        encode, media_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is not a number
        encode, media_type = choose_encoder("")
    body = encode(CombinedCollector(vitals.collect(), collect_metrics(standing)))
    return Response(body, headers={"content-type": media_type})
