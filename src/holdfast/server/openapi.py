"""What the framework cannot know of our API: the hot path, the token, and the one shape of errors."""

from __future__ import annotations

from typing import Any

from .rest.jobs import SUBMIT_DOCS
from .rest.models import Error, SubmittedView

OPEN = ("/health", "/version", "/identity", "/login")  # without login


def complete(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for model in (Error, SubmittedView):
        described = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(described.pop("$defs", {}))
        schemas[model.__name__] = described
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schema["paths"].setdefault(f"{prefix}/jobs", {})["post"] = _submit()
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _finish(operation, path.removeprefix(prefix))
    return schema


def _submit() -> dict[str, Any]:
    shown = {"application/json": {"schema": {"$ref": "#/components/schemas/SubmittedView"}}}
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
