"""Errors in OpenPAI's shape: a status, and {"code", "message"}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.server.responses import respond_json
from holdfast.services.errors import TooManyRequests, build_store_unavailable_error
from holdfast.store.errors import StoreError

from .cross_origin import CORS_HEADERS


class PaiError(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


# Errors of services for which no handler has a more specific code.
_DEFAULT_CODES: dict[str, tuple[int, str]] = {
    "bad_request": (400, "InvalidParametersError"),
    "invalid_job": (400, "InvalidProtocolError"),
    "not_logged_in": (401, "UnauthorizedUserError"),
    "forbidden": (403, "ForbiddenUserError"),
    "not_found": (404, "NoApiError"),
    "no_log": (404, "NoTaskLogError"),
    "expired": (404, "NoTaskLogError"),
    "conflict": (409, "InvalidParametersError"),
    "too_large": (413, "InvalidParametersError"),
    "too_many_requests": (429, "TooManyRequestsError"),
    "unavailable": (503, "UnknownError"),
}


@contextmanager
def translate_errors(*cases: tuple[type[UserError], int, str, str | None]) -> Iterator[None]:
    """Within this context, raise errors of these types with that status, code and message (None: the error's own)."""
    try:
        yield
    except UserError as error:
        for kind, status, code, message in cases:
            if isinstance(error, kind):
                raise PaiError(status, code, error_to_line(error) if message is None else message) from error
        raise


def error_to_line(error: UserError) -> str:
    return error.message if not error.hint else f"{error.message}. {error.hint}"


def render_pai_error(error: PaiError | UserError) -> Response:
    if isinstance(error, UserError):
        status, code = _DEFAULT_CODES.get(error.code, (400, "InvalidParametersError"))
        return respond_error(status, code, error_to_line(error), _build_error_headers(error))
    return respond_error(error.status, error.code, error.message)


def respond_error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    response = respond_json({"code": code, "message": message}, status)
    response.headers.update(headers or {})
    return response


_ENDPOINT_HINTS = {("POST", "/api/v1/jobs"): "Submit jobs of protocol v1 with POST /api/v1/user/<user>/jobs."}


def build_no_api_error(url: str, method: str = "GET") -> PaiError:
    hint = _ENDPOINT_HINTS.get((method, url.partition("?")[0].rstrip("/")))
    message = f"API {url[:500]} is not found."
    return PaiError(404, "NoApiError", f"{message} {hint}" if hint else message)


def build_guest_denied_error() -> PaiError:
    return PaiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")


def build_store_error(error: StoreError) -> PaiError:
    unavailable = build_store_unavailable_error(error, "Check the server log for details.")
    return PaiError(503, "UnknownError", f"{unavailable.message}. {unavailable.hint}")


def render_unhandled_error(error: UserError | None, request_id: str) -> Response:
    """Render an error outside of all endpoints; None is an unexpected error."""
    if error is not None:
        response = render_pai_error(error)
    else:
        message = f"Internal server error. Search the server log for {request_id}."
        response = respond_error(500, "UnknownError", message)
    response.headers.update(CORS_HEADERS)
    return response


def _build_error_headers(error: UserError) -> dict[str, str]:
    if isinstance(error, TooManyRequests):
        return {"Retry-After": str(max(1, round(error.retry_after)))}
    if error.code == "too_large":
        return {"Connection": "close"}  # the rest of the body is not read
    return {}
