"""The prefix and routes of the REST API."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute

API_PREFIX = "/api/v1"


class RestRoute(APIRoute):
    """A route with the shape of its responses. FastAPI does not get the shape: it would build a validator for each
    route at server start, which is not used."""

    def __init__(self, path: str, endpoint: Any, *, response_model: Any = None, **more: Any) -> None:
        super().__init__(path, endpoint, response_model=None, **more)
        self.response_shape = (
            None if isinstance(response_model, DefaultPlaceholder) else response_model
        )  # of `holdfast.api`


def build_router(*tags: str) -> APIRouter:
    """Return a router whose routes are complete; FastAPI would create each again when including them under a prefix."""
    return APIRouter(prefix=API_PREFIX, tags=list(tags), route_class=RestRoute)
