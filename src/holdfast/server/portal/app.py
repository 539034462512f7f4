"""All pages of the portal."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from .pages import PAGES
from .static_files import PREFIX, serve_asset


def list_portal_routes() -> list[BaseRoute]:
    routes: list[BaseRoute] = [Route(PREFIX + "/{mark}/{name:path}", serve_asset)]
    for module in PAGES:
        routes.extend(module.routes)
    return routes
