"""Error responses: each kind of error becomes one JSON shape. Details of unexpected errors are only logged."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.messages import get_message_json, join_messages, msg
from holdfast.services.errors import TooManyRequests, build_store_unavailable_error
from holdfast.store.errors import StoreError

from .validation_messages import format_validation_error

log = logging.getLogger(__name__)

STATUS_CODES: dict[str, int] = {
    "bad_request": 400,
    "invalid_job": 400,
    "not_logged_in": 401,
    "forbidden": 403,
    "not_found": 404,
    "no_log": 404,
    "conflict": 409,
    "expired": 410,
    "too_large": 413,
    "too_many_requests": 429,
    "internal": 500,
    "unavailable": 503,
}

# What frameworks reject with a status code only.
_HTTP_ERRORS: dict[int, tuple[str, str, str | None]] = {
    400: ("bad_request", msg("The request is not valid"), None),
    404: ("not_found", msg("Not found: no resource has this URL"), msg("See GET /api/docs for all endpoints.")),
    405: (
        "bad_request",
        msg("This endpoint does not support this HTTP method"),
        msg("See GET /api/docs for all endpoints."),
    ),
    413: ("too_large", msg("The request is too large"), None),
}


MissingPageRenderer = Callable[[Request], Awaitable[Response]]
ErrorPageRenderer = Callable[[Request, int, str], Response]  # status, message


class BodyTooLarge(HTTPException):
    """Raised while a body is read; FastAPI would swallow a plain UserError there."""

    def __init__(self, limit: int, *, logged_in: bool = True) -> None:
        whose = "" if logged_in else msg(" for requests without a login")
        super().__init__(413, msg("The request exceeds the limit of {limit} bytes{scope}", limit=limit, scope=whose))


class RangeNotSatisfiable(HTTPException):
    """A Range that is entirely outside the content."""

    def __init__(self, size: int) -> None:
        super().__init__(416, msg("The requested range is outside the content"), {"Content-Range": f"bytes */{size}"})


def render_error(error: UserError, request_id: str) -> Response:
    return _build_error_response(
        STATUS_CODES.get(error.code, 400), error_to_json(error, request_id), _build_error_headers(error)
    )


def error_to_json(error: UserError, request_id: str) -> dict[str, Any]:
    body = _build_error_body(error.code, error.message, request_id, field=error.field, hint=error.hint)
    if isinstance(error, InvalidJob):
        body["problems"] = [
            {
                "field": p.field,
                "message": p.message,
                "message_data": get_message_json(p.message),
                "hint": p.hint,
                "hint_data": get_message_json(p.hint),
                "line": p.line,
            }
            for p in error.problems
        ]
    return body


def render_internal_error(request_id: str) -> Response:
    hint = msg("Search the server log for this request ID.")
    return _build_error_response(
        500, _build_error_body("internal", msg("Internal server error"), request_id, hint=hint), {}
    )


def render_unhandled_error(error: UserError | None, request_id: str) -> Response:
    return render_internal_error(request_id) if error is None else render_error(error, request_id)


def add_error_handlers(app: FastAPI, show_missing: MissingPageRenderer, show_fault: ErrorPageRenderer) -> None:
    """Add error handlers. `show_missing` renders the page for an unknown URL, `show_fault` those for other errors."""

    async def handle_user_error(request: Request, error: UserError) -> Response:
        return render_error(error, get_request_id(request))

    async def handle_store_error(request: Request, error: StoreError) -> Response:
        log.error("database error", extra={"event": "store", "error": str(error)})
        hint = msg("Check the server log for details. With an Idempotency-Key you can safely retry.")
        return render_error(build_store_unavailable_error(error, hint), get_request_id(request))

    async def handle_http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and should_render_page(request):
            return await show_missing(request)
        if error.status_code == 405:
            allowed = {"Allow": ", ".join(_list_allowed_methods(app, request.url.path))}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=allowed)
            error = HTTPException(405, headers=allowed)
        if should_render_page(request):
            return render_error_page(request, error)
        return _render_http_error(error, get_request_id(request))

    def render_error_page(request: Request, error: HTTPException) -> Response:
        response = show_fault(request, error.status_code, _describe_http_error(error)[1])
        response.headers.update(_build_http_headers(error))
        return response

    async def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
        return _render_validation_error(error, get_request_id(request))

    app.add_exception_handler(UserError, handle_user_error)  # type: ignore[arg-type]
    app.add_exception_handler(StoreError, handle_store_error)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, handle_http_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, handle_invalid_request)  # type: ignore[arg-type]


def _list_allowed_methods(app: FastAPI, path: str) -> list[str]:
    """Return the methods that a path supports; empty when it does not exist."""
    routes = (route for route in app.routes if isinstance(route, Route) and route.path_regex.fullmatch(path))
    found = {method for route in routes for method in route.methods or ()}
    return sorted(found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set())) if found else []


def should_render_page(request: Request) -> bool:
    """Return whether a browser or a script of our pages sent the request, rather than a program."""
    api = request.url.path.startswith(("/api/", "/rest-server/"))
    return not api and ("text/html" in request.headers.get("accept", "") or "hx-request" in request.headers)


def get_request_id(request: Request) -> str:
    return str(request.scope.get("holdfast.request_id", ""))


def _build_error_headers(error: UserError) -> dict[str, str]:
    if isinstance(error, TooManyRequests):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    if error.code == "not_logged_in":
        return {"WWW-Authenticate": "Bearer"}
    if error.code == "too_large":
        return {"Connection": "close"}  # the rest of the body is not read
    return {}


def _render_http_error(error: HTTPException, request_id: str) -> Response:
    code, message, hint = _describe_http_error(error)
    return _build_error_response(
        error.status_code, _build_error_body(code, message, request_id, hint=hint), _build_http_headers(error)
    )


def _describe_http_error(error: HTTPException) -> tuple[str, str, str | None]:
    """Return code, message and hint."""
    status = error.status_code
    default = ("bad_request" if status < 500 else "internal", HTTPStatus(status).phrase, None)
    code, message, hint = _HTTP_ERRORS.get(status, default)
    return code, error.detail if isinstance(error, BodyTooLarge | RangeNotSatisfiable) else message, hint


def _build_http_headers(error: HTTPException) -> dict[str, str]:
    return {**(error.headers or {}), **({"Connection": "close"} if error.status_code == 413 else {})}


def _render_validation_error(error: RequestValidationError, request_id: str) -> Response:
    """Return the first problem with the name of its field."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    field = ".".join(where[1:]) or where[0]
    if first["type"] == "json_invalid":
        return _build_error_response(
            400, _build_error_body("bad_request", msg("The request body is not valid JSON"), request_id), {}
        )
    return _build_error_response(
        400,
        _build_error_body(
            "bad_request", join_messages(": ", (field, format_validation_error(first))), request_id, field=field
        ),
        {},
    )


def _build_error_body(
    code: str, message: str, request_id: str, *, field: str | None = None, hint: str | None = None
) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "message_data": get_message_json(message),
        "field": field,
        "hint": hint,
        "hint_data": get_message_json(hint),
        "request_id": request_id,
        "problems": [],
    }


def _build_error_response(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    content = json.dumps({"error": body}).encode()
    return Response(content, status, dict(headers), media_type="application/json")
