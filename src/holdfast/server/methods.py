"""Which methods an address takes: for 405, and for OPTIONS."""

from __future__ import annotations

import re
from functools import cached_property

from fastapi import FastAPI
from starlette.routing import Route


class Methods:
    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def allowed(self, path: str) -> list[str]:
        """Empty when there is nothing at this address."""
        found = {method for pattern, methods in self._table for method in methods if pattern.match(path)}
        if not found:
            return []
        return sorted(found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set()))

    @cached_property
    def _table(self) -> list[tuple[re.Pattern[str], set[str]]]:
        return [(route.path_regex, route.methods or set()) for route in self._app.routes if isinstance(route, Route)]
