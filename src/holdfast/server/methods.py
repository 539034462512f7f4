"""Which methods an address takes: for 405, and for OPTIONS."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, TypeGuard

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

_PAGES = ("/healthz", "/api/docs", "/api/v1/openapi.json")


class Methods:
    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def allowed(self, path: str) -> list[str]:
        """Empty when there is nothing at this address."""
        found = {method for pattern, methods in self._table for method in methods if pattern.fullmatch(path)}
        if not found:
            return []
        return sorted(found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set()))

    @cached_property
    def _table(self) -> list[tuple[re.Pattern[str], list[str]]]:
        paths: dict[str, Any] = self._app.openapi()["paths"]
        table = [(_pattern(path), [method.upper() for method in operations]) for path, operations in paths.items()]
        pages = [(route.path_regex, sorted(route.methods or ())) for route in self._app.routes if _is_page(route)]
        return [*table, *pages, *((_pattern(page), ["GET"]) for page in _PAGES)]


def _is_page(route: BaseRoute) -> TypeGuard[Route]:
    """Of the portal, or another that OpenAPI does not tell of."""
    return isinstance(route, Route) and not isinstance(route, APIRoute)


def _pattern(path: str) -> re.Pattern[str]:
    """A name in an address holds no slash, but for that of an image."""
    parts = re.split(r"(\{\w+\})", path)
    anything = ".+" if path.endswith("/images/{name}") else "[^/]+"
    return re.compile("".join(anything if part.startswith("{") else re.escape(part) for part in parts))
