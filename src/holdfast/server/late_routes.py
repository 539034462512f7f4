"""Loads the portal after the server has started, or at the first request for a page if that comes earlier.

It is a fifth of the code that a server loads. After a crash, tasks and API clients do not wait for it.
"""

from __future__ import annotations

import asyncio
from importlib import import_module

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import UserError


class PortalLoading:
    """Adds the portal's routes to an application behind all others."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._loading: asyncio.Task[None] | None = None
        app.router.default = self._load_and_try_again

    async def load(self) -> None:
        """Load it if it is not loaded yet; calls at the same time share one load."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        try:
            await asyncio.shield(self._loading)
        except Exception:
            self._loading = None  # the next call tries again
            raise

    async def _load_and_try_again(self, scope: Scope, receive: Receive, send: Send) -> None:
        """For a request that no loaded route matches."""
        await self.load()
        await self._app.router(scope, receive, send)

    async def _load(self) -> None:
        await asyncio.to_thread(import_module, "holdfast.server.portal.app")
        from .portal.app import portal_routes

        router = self._app.router
        router.default = router.not_found
        router.routes.extend(portal_routes())


async def show_missing(request: Request) -> Response:
    from .portal.routes import show_missing

    return await show_missing(request)


def show_fault(request: Request, status: int, message: str) -> Response:
    from .portal.faults import show_fault

    return show_fault(request, status, message)


def show_refusal(request: Request, error: UserError | None) -> Response:
    from .portal.faults import show_refusal

    return show_refusal(request, error)
