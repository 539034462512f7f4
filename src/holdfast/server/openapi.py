"""What the framework cannot know of our API: the hot path, the token, and the one shape of errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.routing import BaseRoute

from holdfast.api.errors import Error
from holdfast.api.jobs import SubmittedJob

from .rest.addresses import RestRoute
from .rest.jobs import SUBMIT_DOCS
from .rest.schemas import derive_schemas

OPEN = ("/health", "/version", "/identity", "/login")  # without login


def complete(schema: dict[str, Any], prefix: str, routes: Iterable[BaseRoute]) -> dict[str, Any]:
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _describe_answers(schema, [route for route in routes if isinstance(route, RestRoute) and route.shape is not None])
    schema["paths"].setdefault(f"{prefix}/jobs", {})["post"] = _submit()
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _finish(operation, path.removeprefix(prefix))
    return schema


def _describe_answers(schema: dict[str, Any], routes: list[RestRoute]) -> None:
    found, shared = derive_schemas([*(route.shape for route in routes), Error, SubmittedJob])
    schema["components"]["schemas"].update(shared)
    for route, described in zip(routes, found, strict=False):
        for method in route.methods or ():
            answers = schema["paths"][route.path_format][method.lower()]["responses"]
            answers[str(route.status_code or 200)]["content"]["application/json"]["schema"] = described


def _submit() -> dict[str, Any]:
    shown = {"application/json": {"schema": {"$ref": "#/components/schemas/SubmittedJob"}}}
    return {
        **SUBMIT_DOCS,
        "responses": {
            "201": {"description": "Accepted", "content": shown},
            "200": {"description": "Accepted before, with the same key", "content": shown},
        },
    }


def _finish(operation: dict[str, Any], path: str) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    shape = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    responses["default"] = {"description": "Refused, or failed", "content": shape}
    if path in OPEN:
        operation["security"] = []
