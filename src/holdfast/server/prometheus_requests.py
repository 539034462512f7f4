"""Counts and times every request by API surface."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.services.metrics.server_metrics import ServerMetrics

from .openpai.cross_origin import is_cross_origin_path
from .portal.static_files import STATIC_PREFIX as STATIC
from .primehub.app import is_primehub_path
from .prometheus import METRICS_PATH
from .rest.routing import API_PREFIX

KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Long polls, whose duration says nothing about the server.
LONG_POLL_SUFFIXES = ("/wait", "/follow")


def get_api_surface(path: str) -> str:
    """Return the surface that a path belongs to, one of a few labels."""
    if path == METRICS_PATH:
        return "metrics"
    if path.endswith(LONG_POLL_SUFFIXES):
        return "waiting"
    if path.startswith(API_PREFIX):
        return "rest"
    if is_primehub_path(path):
        return "primehub"
    if is_cross_origin_path(path):
        return "openpai"
    return "static" if path.startswith(f"{STATIC}/") else "portal"


class RequestMetricsMiddleware:
    def __init__(self, app: ASGIApp, vitals: ServerMetrics) -> None:
        self._app = app
        self._metrics = vitals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in KNOWN_METHODS else "other"
                seconds = time.perf_counter() - began
                self._metrics.record_request(get_api_surface(scope["path"]), method, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, send_and_count)
