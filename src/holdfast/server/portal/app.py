"""All pages of the portal."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from .pages import PAGE_MODULES
from .static_files import STATIC_PREFIX, serve_asset


def list_portal_routes() -> list[BaseRoute]:
    routes: list[BaseRoute] = [Route(STATIC_PREFIX + "/{mark}/{name:path}", serve_asset)]
    for module in PAGE_MODULES:
        routes.extend(module.routes)
    return routes
