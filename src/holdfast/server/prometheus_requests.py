"""Counts and times every request, by what part of the server it was for."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.services.metrics.server_metrics import Vitals

from .openpai.cross_origin import is_open
from .portal.static_files import PREFIX as STATIC
from .primehub.app import is_primehub
from .prometheus import PATH
from .rest.addresses import PREFIX

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Answered when something happens, however long that takes.
PATIENT = ("/wait", "/follow")


def surface_of(path: str) -> str:
    """One of few words, whatever the path is."""
    if path == PATH:
        return "metrics"
    if path.endswith(PATIENT):
        return "waiting"
    if path.startswith(PREFIX):
        return "rest"
    if is_primehub(path):
        return "primehub"
    if is_open(path):
        return "openpai"
    return "static" if path.startswith(f"{STATIC}/") else "portal"


class Counted:
    def __init__(self, app: ASGIApp, vitals: Vitals) -> None:
        self._app = app
        self._vitals = vitals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in METHODS else "other"
                seconds = time.perf_counter() - began
                self._vitals.answered(surface_of(scope["path"]), method, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, counted)
