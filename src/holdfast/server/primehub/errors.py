"""Errors in PrimeHub's shapes: a list with codes in GraphQL, {"code", "message"} in its other endpoints. Errors of
single fields are in field_errors.py, which needs the GraphQL library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.responses import Response

from holdfast.core.errors import Conflict, NotFound, NotLoggedIn, UserError
from holdfast.server.errors import STATUS_CODES
from holdfast.server.responses import respond_json
from holdfast.services.errors import NotInGroup, OverQuota, build_store_unavailable_error
from holdfast.store.errors import StoreError

NOT_AUTH_CODE = "NOT_AUTH"
NOT_FOUND_CODE = "RESOURCE_NOT_FOUND"
CONFLICT_CODE = "RESOURCE_CONFLICT"
INVALID_BODY_CODE = "REQUEST_BODY_INVALID"
UNAVAILABLE_CODE = "API_UNAVAILABLE"
INTERNAL_ERROR_CODE = "INTERNAL_SERVER_ERROR"
INVALID_QUERY_CODE = "GRAPHQL_VALIDATION_FAILED"
USER_NOT_EXIST_CODE = "USER_NOT_EXIST"

MAX_MESSAGE_LENGTH = 2000  # characters of a message, which can contain parts of the request


class PrimeHubError(Exception):
    """An error with PrimeHub's own message."""

    def __init__(self, message: str, code: str = INVALID_BODY_CODE) -> None:
        super().__init__(message)
        self.message, self.code = message, code


# Codes of services' errors without a more specific one.
_ERROR_CODES: dict[str, str] = {
    "not_logged_in": NOT_AUTH_CODE,
    "forbidden": NOT_AUTH_CODE,
    "not_found": NOT_FOUND_CODE,
    "no_log": NOT_FOUND_CODE,
    "expired": NOT_FOUND_CODE,
    "conflict": CONFLICT_CODE,
    "too_many_requests": UNAVAILABLE_CODE,
    "unavailable": UNAVAILABLE_CODE,
}


def build_not_auth_error() -> PrimeHubError:
    return PrimeHubError("user not auth", NOT_AUTH_CODE)


def build_resource_not_found_error(plural: str, id: str) -> PrimeHubError:
    """Return the error by whose text clients detect that something does not exist: `phjobs`, `images`, ..."""
    return PrimeHubError(f'{plural}.primehub.io "{id[:100]}" not found', NOT_FOUND_CODE)


def build_plain_not_found_error(kind: str, id: str) -> PrimeHubError:
    """Return the error for something that does not exist, where clients do not parse the text."""
    return PrimeHubError(f"{kind} {id[:100]} not found", NOT_FOUND_CODE)


@contextmanager
def translate_not_found(plural: str, id: str) -> Iterator[None]:
    """Within this context, raise NotFound as the error that clients detect."""
    try:
        yield
    except NotFound:
        raise build_resource_not_found_error(plural, id) from None


@contextmanager
def translate_conflict() -> Iterator[None]:
    try:
        yield
    except Conflict:
        raise build_conflict_error() from None


def build_conflict_error() -> PrimeHubError:
    return PrimeHubError("Resource already exist", CONFLICT_CODE)


def translate_error(error: UserError) -> PrimeHubError:
    if isinstance(error, NotInGroup):
        return build_not_auth_error()
    if isinstance(error, OverQuota):
        return PrimeHubError(error.primehub, "EXCEED_QUOTA")
    return PrimeHubError(format_error_line(error), _ERROR_CODES.get(error.code, INVALID_BODY_CODE))


def format_error_line(error: UserError) -> str:
    """Return one of our errors as one line, without hints to Holdfast's commands."""
    hint = error.hint if error.hint and not error.hint.startswith("`holdfast ") else None
    return f"{error.message}. {hint}" if hint else error.message


# -- whole requests


def build_store_error(error: StoreError) -> PrimeHubError:
    unavailable = build_store_unavailable_error(error, "Check the server log for details.")
    return PrimeHubError(f"{unavailable.message}. {unavailable.hint}", UNAVAILABLE_CODE)


def build_internal_error(request_id: str) -> PrimeHubError:
    return PrimeHubError(f"Internal server error. Search the server log for {request_id}.", INTERNAL_ERROR_CODE)


def respond_graphql_error(error: PrimeHubError, status: int) -> Response:
    """Return the error response for a whole request."""
    listed = {"message": error.message[:MAX_MESSAGE_LENGTH], "extensions": {"code": error.code}}
    return respond_json({"errors": [listed], "data": None}, status)


def respond_not_logged_in() -> Response:
    message = "Invalid API Token. Create one with `holdfast token create`, or with `primehub config generate-token`."
    response = respond_graphql_error(PrimeHubError(message, "ACCESS_TOKEN_EXPIRED"), 401)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


# -- other endpoints


def respond_plain_error(error: UserError | PrimeHubError) -> Response:
    if isinstance(error, NotLoggedIn):
        return _build_plain_response(401, "NOT_AUTH", "Invalid API Token")
    if isinstance(error, PrimeHubError):
        return _build_plain_response(_get_status(error.code), error.code, error.message)
    return _build_plain_response(
        STATUS_CODES.get(error.code, 400), translate_error(error).code, format_error_line(error)
    )


def _get_status(code: str) -> int:
    return {
        NOT_AUTH_CODE: 403,
        NOT_FOUND_CODE: 404,
        CONFLICT_CODE: 409,
        INTERNAL_ERROR_CODE: 500,
        UNAVAILABLE_CODE: 503,
    }.get(code, 400)


def _build_plain_response(status: int, code: str, message: str) -> Response:
    return respond_json({"code": code, "message": message[:MAX_MESSAGE_LENGTH]}, status)


def render_unhandled_error(path: str, error: UserError | None, request_id: str) -> Response:
    """Render an error outside of all endpoints; None is an unexpected error."""
    if path != GRAPHQL_PATH:
        return respond_plain_error(error or build_internal_error(request_id))
    refusal = build_internal_error(request_id) if error is None else translate_error(error)
    return respond_graphql_error(refusal, 500 if error is None else STATUS_CODES.get(error.code, 400))


GRAPHQL_PATH = "/api/graphql"
