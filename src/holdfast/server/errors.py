"""Errors on their way out: each kind becomes one JSON shape, once. What we did not foresee stays in our log."""

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

from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.messages import data_of, join_messages, msg
from holdfast.services.refusals import TooManyRequests, store_unavailable
from holdfast.store.errors import StoreError

from .methods import Methods
from .validation_messages import in_words

log = logging.getLogger(__name__)

STATUS: dict[str, int] = {
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

# What frameworks below us refuse by number alone.
_WORDS: dict[int, tuple[str, str, str | None]] = {
    400: ("bad_request", msg("The request could not be understood"), None),
    404: ("not_found", msg("There is nothing at this address"), msg("GET /api/docs lists every address.")),
    405: ("bad_request", msg("This address does not take this method"), msg("GET /api/docs lists every address.")),
    413: ("too_large", msg("The request is too large"), None),
}


ShowMissing = Callable[[Request], Awaitable[Response]]
ShowFault = Callable[[Request, int, str], Response]  # status, message


class TooLargeBody(HTTPException):
    """Raised while a body is being read; a plain UserError would be swallowed by the framework there."""

    def __init__(self, limit: int, *, logged_in: bool = True) -> None:
        whose = "" if logged_in else msg(", for you are not logged in")
        super().__init__(413, msg("The request may have at most {limit} bytes{whose}", limit=limit, whose=whose))


class BadRange(HTTPException):
    """A Range that lies wholly outside."""

    def __init__(self, size: int) -> None:
        super().__init__(416, msg("This range holds nothing"), {"Content-Range": f"bytes */{size}"})


def render_error(error: UserError, request_id: str) -> Response:
    return _response(STATUS.get(error.code, 400), error_body(error, request_id), _headers(error))


def error_body(error: UserError, request_id: str) -> dict[str, Any]:
    body = _body(error.code, error.message, request_id, field=error.field, hint=error.hint)
    if isinstance(error, InvalidJob):
        body["problems"] = [
            {
                "field": p.field,
                "message": p.message,
                "message_data": data_of(p.message),
                "hint": p.hint,
                "hint_data": data_of(p.hint),
                "line": p.line,
            }
            for p in error.problems
        ]
    return body


def render_internal(request_id: str) -> Response:
    hint = msg("Look for this request id in the server's log.")
    return _response(500, _body("internal", msg("internal error"), request_id, hint=hint), {})


def render_outermost(error: UserError | None, request_id: str) -> Response:
    return render_internal(request_id) if error is None else render_error(error, request_id)


def add_handlers(app: FastAPI, show_missing: ShowMissing, show_fault: ShowFault) -> None:
    """`show_missing` makes the page for an address where there is nothing, `show_fault` those for other refusals."""

    async def user_error(request: Request, error: UserError) -> Response:
        return render_error(error, request_id_of(request))

    async def store_error(request: Request, error: StoreError) -> Response:
        log.error("the store could not do it", extra={"event": "store", "error": str(error)})
        hint = msg("The server's log says more; trying again is safe with an Idempotency-Key.")
        return render_error(store_unavailable(error, hint), request_id_of(request))

    methods = Methods(app)

    async def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and wants_page(request):
            return await show_missing(request)
        if error.status_code != 405:
            return _refuse_page(request, error) if wants_page(request) else _render_http(error, request_id_of(request))
        allowed = {"Allow": ", ".join(methods.allowed(request.url.path))}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allowed)
        refused = HTTPException(405, headers=allowed)
        return _refuse_page(request, refused) if wants_page(request) else _render_http(refused, request_id_of(request))

    def _refuse_page(request: Request, error: HTTPException) -> Response:
        response = show_fault(request, error.status_code, _say_http(error)[1])
        response.headers.update(_http_headers(error))
        return response

    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _render_invalid(error, request_id_of(request))

    app.add_exception_handler(UserError, user_error)  # type: ignore[arg-type]
    app.add_exception_handler(StoreError, store_error)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, http_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, invalid)  # type: ignore[arg-type]


def wants_page(request: Request) -> bool:
    """A person with a browser, or a script of a page of ours; not a program."""
    api = request.url.path.startswith(("/api/", "/rest-server/"))
    return not api and ("text/html" in request.headers.get("accept", "") or "hx-request" in request.headers)


def request_id_of(request: Request) -> str:
    return str(request.scope.get("holdfast.request_id", ""))


def _headers(error: UserError) -> dict[str, str]:
    if isinstance(error, TooManyRequests):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    if error.code == "not_logged_in":
        return {"WWW-Authenticate": "Bearer"}
    if error.code == "too_large":
        return {"Connection": "close"}  # the rest of the body is not read
    return {}


def _render_http(error: HTTPException, request_id: str) -> Response:
    code, message, hint = _say_http(error)
    return _response(error.status_code, _body(code, message, request_id, hint=hint), _http_headers(error))


def _say_http(error: HTTPException) -> tuple[str, str, str | None]:
    """Code, message, hint."""
    status = error.status_code
    default = ("bad_request" if status < 500 else "internal", HTTPStatus(status).phrase, None)
    code, message, hint = _WORDS.get(status, default)
    return code, error.detail if isinstance(error, TooLargeBody | BadRange) else message, hint


def _http_headers(error: HTTPException) -> dict[str, str]:
    return {**(error.headers or {}), **({"Connection": "close"} if error.status_code == 413 else {})}


def _render_invalid(error: RequestValidationError, request_id: str) -> Response:
    """The first problem named by its field; where it is in the query, path or body is plain from its name."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"]]
    field = ".".join(where[1:]) or where[0]
    if first["type"] == "json_invalid":
        return _response(400, _body("bad_request", msg("The body is not JSON"), request_id), {})
    return _response(
        400, _body("bad_request", join_messages(": ", (field, in_words(first))), request_id, field=field), {}
    )


def _body(
    code: str, message: str, request_id: str, *, field: str | None = None, hint: str | None = None
) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "message_data": data_of(message),
        "field": field,
        "hint": hint,
        "hint_data": data_of(hint),
        "request_id": request_id,
        "problems": [],
    }


def _response(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    content = json.dumps({"error": body}).encode()
    return Response(content, status, dict(headers), media_type="application/json")
