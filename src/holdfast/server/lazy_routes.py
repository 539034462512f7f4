"""Loads some of the routes at the first request for one of them.

They are more than a third of a server's code. A server without such requests saves the memory, and after a crash the
job routes do not wait for them.
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

from .rest.routing import API_PREFIX


@dataclass(frozen=True, slots=True)
class RouteStage:
    """A module of this package, its function that returns routes, and a check whether a path can be one of them."""

    module: str
    function: str
    serves: Callable[[str], bool]


ROUTE_STAGES = (
    RouteStage(".rest.lazy_modules", "list_routes", lambda path: path.startswith(API_PREFIX)),
    RouteStage(".portal.app", "list_portal_routes", lambda path: not path.startswith(API_PREFIX)),
)


class LazyRoutes:
    """Adds the routes of a stage to an application, after all others."""

    def __init__(self, app: FastAPI, stages: Iterable[RouteStage] = ROUTE_STAGES) -> None:
        self._router = app.router
        self._stages = list(stages)  # stages that are not loaded
        self._loading: dict[str, asyncio.Task[None]] = {}  # by module
        self.on_load: Callable[[], None] = lambda: None
        app.router.default = self._load_and_retry

    async def load_stage_for(self, path: str) -> bool:
        """Load the stage that serves this path; concurrent calls share one load. False: nothing to load."""
        stage = self._find_stage(path)
        if stage is None:
            return False
        if stage.module not in self._loading:
            self._loading[stage.module] = asyncio.create_task(self._load_stage(stage))
        await asyncio.shield(self._loading[stage.module])
        return True

    def load_stage_now(self, path: str) -> None:
        """Load it in this thread."""
        stage = self._find_stage(path)
        if stage is not None:
            self._add_routes(stage, import_module(stage.module, __package__))

    def _find_stage(self, path: str) -> RouteStage | None:
        return next((stage for stage in self._stages if stage.serves(path)), None)

    async def _load_and_retry(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request that no loaded route matches."""
        if await self.load_stage_for(scope["path"]):
            await self._router(scope, receive, send)
        else:
            await self._router.not_found(scope, receive, send)

    async def _load_stage(self, stage: RouteStage) -> None:
        try:
            self._add_routes(stage, await asyncio.to_thread(import_module, stage.module, __package__))
        finally:
            del self._loading[stage.module]  # after an error the next call tries again

    def _add_routes(self, stage: RouteStage, module: ModuleType) -> None:
        if stage in self._stages:
            self._router.routes.extend(getattr(module, stage.function)())
            self._stages.remove(stage)
            self.on_load()


async def render_missing_page(request: Request) -> Response:
    from .portal.routes import show_not_found

    return await show_not_found(request)


def render_error_page(request: Request, status: int, message: str) -> Response:
    from .portal.error_pages import build_error_page

    return build_error_page(request, status, message)


def render_refusal_page(request: Request, error: UserError | None) -> Response:
    from .portal.error_pages import build_refusal_page

    return build_refusal_page(request, error)
