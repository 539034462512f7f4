"""Loads a part of the routes after the server has started, or at the first request for one if that comes earlier.

They are more than a third of the code that a server loads. After a crash, what works with jobs does not wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Stage:
    """A module of this package, and its function that returns routes."""

    module: str
    function: str


STAGES = (Stage(".rest.late_modules", "list_routes"), Stage(".portal.app", "portal_routes"))


class LateRoutes:
    """Adds the routes of one stage after the other to an application, behind all others."""

    def __init__(self, app: FastAPI, stages: Iterable[Stage] = STAGES) -> None:
        self._router = app.router
        self._stages = deque(stages)
        self._loading: asyncio.Task[None] | None = None
        app.router.default = self._load_and_try_again

    async def load(self) -> None:
        """Load what is not loaded yet; calls at the same time share one load."""
        while self._stages:
            await self._load_stage()

    def load_now(self) -> None:
        """Load it in this thread."""
        while self._stages:
            self._add(import_module(self._stages[0].module, __package__))

    async def _load_and_try_again(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that no loaded route matches."""
        if self._stages:
            await self._load_stage()
        await self._router(scope, receive, send)

    async def _load_stage(self) -> None:
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_next(self._stages[0]))
        await asyncio.shield(self._loading)

    async def _load_next(self, stage: Stage) -> None:
        try:
            module = await asyncio.to_thread(import_module, stage.module, __package__)
            if self._stages and self._stages[0] is stage:
                self._add(module)
        finally:
            self._loading = None  # after an error the next call tries again

    def _add(self, module: ModuleType) -> None:
        routes = getattr(module, self._stages[0].function)()
        self._stages.popleft()
        self._router.routes.extend(routes)
        if not self._stages:
            self._router.default = self._router.not_found


async def show_missing(request: Request) -> Response:
    from .portal.routes import show_missing

    return await show_missing(request)


def show_fault(request: Request, status: int, message: str) -> Response:
    from .portal.faults import show_fault

    return show_fault(request, status, message)


def show_refusal(request: Request, error: UserError | None) -> Response:
    from .portal.faults import show_refusal

    return show_refusal(request, error)
