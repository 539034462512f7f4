"""Checks every answer of the REST API against the shape that its route declares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import TypeAdapter
from starlette.routing import Match, Route

from holdfast.api.errors import Error
from holdfast.api.jobs import SubmittedJob
from holdfast.server.rest.jobs import submit_job
from holdfast.server.rest.routing import API_PREFIX, RestRoute
from holdfast.server.rest.schemas import derive_response_type


def check_answers(app: FastAPI) -> Callable[[httpx.Response], Awaitable[None]]:
    """A hook for `httpx` that raises when an answer does not have the declared shape."""

    async def check(response: httpx.Response) -> None:
        request, kind = response.request, response.headers.get("content-type", "")
        if request.method != "HEAD" and request.url.path.startswith(API_PREFIX) and kind == "application/json":
            shape = find_shape(app, request.method, request.url.path) if response.is_success else Error
            if shape is not None:
                check_shape(shape, await response.aread())

    return check


def check_shape(shape: Any, answer: bytes) -> None:
    """Raise a ValidationError unless `answer` is a `shape` with all of its fields and no others."""
    _adapter(shape).validate_json(answer)


def find_shape(app: FastAPI, method: str, path: str) -> Any:
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    for route in app.router.routes:
        if route.matches(scope)[0] is Match.FULL:
            if isinstance(route, Route) and route.endpoint is submit_job:
                return SubmittedJob
            return route.response_shape if isinstance(route, RestRoute) else None
    return None


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(derive_response_type(shape))
