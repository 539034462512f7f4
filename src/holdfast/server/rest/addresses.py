"""Where the REST API lies."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute

PREFIX = "/api/v1"


class RestRoute(APIRoute):
    """A route that knows the shape of its answers. The framework does not: it would build a validator for each route
    while the server starts, and none is used."""

    def __init__(self, path: str, endpoint: Any, *, response_model: Any = None, **more: Any) -> None:
        super().__init__(path, endpoint, response_model=None, **more)
        self.shape = None if isinstance(response_model, DefaultPlaceholder) else response_model  # of `holdfast.api`


def rest_router(*tags: str) -> APIRouter:
    """Routes that are whole as declared; included under a prefix, each would be made again for every application."""
    return APIRouter(prefix=PREFIX, tags=list(tags), route_class=RestRoute)
