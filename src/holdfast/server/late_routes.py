"""Loads a part of the routes at the first request for one of them.

They are more than a third of a server's code: a server that nobody asks for them does without the memory, and after a
crash, what works with jobs does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import UserError

from .rest.addresses import PREFIX


@dataclass(frozen=True, slots=True)
class Stage:
    """A module of this package, its function that returns routes, and whether a path may be one of theirs."""

    module: str
    function: str
    serves: Callable[[str], bool]


STAGES = (
    Stage(".rest.late_modules", "list_routes", lambda path: path.startswith(PREFIX)),
    Stage(".portal.app", "portal_routes", lambda path: not path.startswith(PREFIX)),
)


class LateRoutes:
    """Adds the routes of a stage to an application, behind all others."""

    def __init__(self, app: FastAPI, stages: Iterable[Stage] = STAGES) -> None:
        self._router = app.router
        self._stages = list(stages)  # those that are not loaded
        self._loading: dict[str, asyncio.Task[None]] = {}  # by module
        self.after_load: Callable[[], None] = lambda: None
        app.router.default = self._load_and_try_again

    async def load(self, path: str) -> bool:
        """Load what may serve this path; calls at the same time share one load. False: there is nothing to load."""
        stage = self._find_stage(path)
        if stage is None:
            return False
        if stage.module not in self._loading:
            self._loading[stage.module] = asyncio.create_task(self._load_stage(stage))
        await asyncio.shield(self._loading[stage.module])
        return True

    def load_now(self, path: str) -> None:
        """Load it in this thread."""
        stage = self._find_stage(path)
        if stage is not None:
            self._add(stage, import_module(stage.module, __package__))

    def _find_stage(self, path: str) -> Stage | None:
        return next((stage for stage in self._stages if stage.serves(path)), None)

    async def _load_and_try_again(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that no loaded route matches."""
        if await self.load(scope["path"]):
            await self._router(scope, receive, send)
        else:
            await self._router.not_found(scope, receive, send)

    async def _load_stage(self, stage: Stage) -> None:
        try:
            self._add(stage, await asyncio.to_thread(import_module, stage.module, __package__))
        finally:
            del self._loading[stage.module]  # after an error the next call tries again

    def _add(self, stage: Stage, module: ModuleType) -> None:
        if stage in self._stages:
            self._router.routes.extend(getattr(module, stage.function)())
            self._stages.remove(stage)
            self.after_load()


async def show_missing(request: Request) -> Response:
    from .portal.routes import show_missing

    return await show_missing(request)


def show_fault(request: Request, status: int, message: str) -> Response:
    from .portal.faults import show_fault

    return show_fault(request, status, message)


def show_refusal(request: Request, error: UserError | None) -> Response:
    from .portal.faults import show_refusal

    return show_refusal(request, error)
