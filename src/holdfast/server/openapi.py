"""Additions to OpenAPI that FastAPI cannot derive: job submission, the token, and the shape of errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.routing import BaseRoute

from holdfast.api.errors import Error
from holdfast.api.jobs import SubmittedJob

from .rest.jobs import SUBMIT_JOB_OPENAPI
from .rest.routing import RestRoute
from .rest.schemas import derive_schemas

PUBLIC_PATHS = ("/health", "/version", "/identity", "/login")  # without login


def complete_schema(schema: dict[str, Any], prefix: str, routes: Iterable[BaseRoute]) -> dict[str, Any]:
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _add_response_schemas(
        schema, [route for route in routes if isinstance(route, RestRoute) and route.response_shape is not None]
    )
    schema["paths"].setdefault(f"{prefix}/jobs", {})["post"] = _build_submit_operation()
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _complete_operation(operation, path.removeprefix(prefix))
    return schema


def _add_response_schemas(schema: dict[str, Any], routes: list[RestRoute]) -> None:
    found, shared = derive_schemas([*(route.response_shape for route in routes), Error, SubmittedJob])
    schema["components"]["schemas"].update(shared)
    for route, described in zip(routes, found, strict=False):
        for method in route.methods or ():
            answers = schema["paths"][route.path_format][method.lower()]["responses"]
            answers[str(route.status_code or 200)]["content"]["application/json"]["schema"] = described


def _build_submit_operation() -> dict[str, Any]:
    shown = {"application/json": {"schema": {"$ref": "#/components/schemas/SubmittedJob"}}}
    return {
        **SUBMIT_JOB_OPENAPI,
        "responses": {
            "201": {"description": "Accepted", "content": shown},
            "200": {"description": "Already accepted with the same key", "content": shown},
        },
    }


def _complete_operation(operation: dict[str, Any], path: str) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    shape = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    responses["default"] = {"description": "Error", "content": shape}
    if path in PUBLIC_PATHS:
        operation["security"] = []
