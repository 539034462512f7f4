"""Which methods an address takes: for 405, and for OPTIONS."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Route


class Methods:
    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def allowed(self, path: str) -> list[str]:
        """Empty when there is nothing at this address."""
        routes = (route for route in self._app.routes if isinstance(route, Route) and route.path_regex.fullmatch(path))
        found = {method for route in routes for method in route.methods or ()}
        if not found:
            return []
        return sorted(found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set()))
