"""Errors in PrimeHub's shapes: a list with codes in GraphQL, {"code", "message"} in its other endpoints. Errors of
single fields are in field_errors.py, which needs the GraphQL library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.responses import Response

from holdfast.core.errors import Conflict, NotFound, NotLoggedIn, UserError
from holdfast.server.errors import STATUS_CODES
from holdfast.server.responses import respond_json
from holdfast.services.errors import NotInGroup, OverQuota, build_store_unavailable
from holdfast.store.errors import StoreError

NOT_AUTH = "NOT_AUTH"
NOT_FOUND = "RESOURCE_NOT_FOUND"
CONFLICT = "RESOURCE_CONFLICT"
INVALID = "REQUEST_BODY_INVALID"
UNAVAILABLE = "API_UNAVAILABLE"
INTERNAL = "INTERNAL_SERVER_ERROR"
BAD_QUERY = "GRAPHQL_VALIDATION_FAILED"
USER_NOT_EXIST = "USER_NOT_EXIST"

MAX_MESSAGE_LENGTH = 2000  # characters of a message, which can contain parts of the request


class PhError(Exception):
    """An error with PrimeHub's own message."""

    def __init__(self, message: str, code: str = INVALID) -> None:
        super().__init__(message)
        self.message, self.code = message, code


# Codes of services' errors without a more specific one.
_ERROR_CODES: dict[str, str] = {
    "not_logged_in": NOT_AUTH,
    "forbidden": NOT_AUTH,
    "not_found": NOT_FOUND,
    "no_log": NOT_FOUND,
    "expired": NOT_FOUND,
    "conflict": CONFLICT,
    "too_many_requests": UNAVAILABLE,
    "unavailable": UNAVAILABLE,
}


def build_not_auth_error() -> PhError:
    return PhError("user not auth", NOT_AUTH)


def build_not_found_error(plural: str, id: str) -> PhError:
    """Return the error by whose text clients detect that something does not exist: `phjobs`, `images`, ..."""
    return PhError(f'{plural}.primehub.io "{id[:100]}" not found', NOT_FOUND)


def build_missing_error(kind: str, id: str) -> PhError:
    """Return the error for something that does not exist, where clients do not parse the text."""
    return PhError(f"{kind} {id[:100]} not found", NOT_FOUND)


@contextmanager
def translate_missing(plural: str, id: str) -> Iterator[None]:
    """Within this context, raise NotFound as the error that clients detect."""
    try:
        yield
    except NotFound:
        raise build_not_found_error(plural, id) from None


@contextmanager
def translate_conflict() -> Iterator[None]:
    try:
        yield
    except Conflict:
        raise build_conflict_error() from None


def build_conflict_error() -> PhError:
    return PhError("Resource already exist", CONFLICT)


def translate_error(error: UserError) -> PhError:
    if isinstance(error, NotInGroup):
        return build_not_auth_error()
    if isinstance(error, OverQuota):
        return PhError(error.primehub, "EXCEED_QUOTA")
    return PhError(error_to_line(error), _ERROR_CODES.get(error.code, INVALID))


def error_to_line(error: UserError) -> str:
    """Return one of our errors as one line, without hints to Holdfast's commands."""
    hint = error.hint if error.hint and not error.hint.startswith("`holdfast ") else None
    return f"{error.message}. {hint}" if hint else error.message


# -- whole requests


def build_store_error(error: StoreError) -> PhError:
    unavailable = build_store_unavailable(error, "Check the server log for details.")
    return PhError(f"{unavailable.message}. {unavailable.hint}", UNAVAILABLE)


def build_internal_error(request_id: str) -> PhError:
    return PhError(f"Internal server error. Search the server log for {request_id}.", INTERNAL)


def respond_refusal(error: PhError, status: int) -> Response:
    """Return the error response for a whole request."""
    listed = {"message": error.message[:MAX_MESSAGE_LENGTH], "extensions": {"code": error.code}}
    return respond_json({"errors": [listed], "data": None}, status)


def respond_not_logged_in() -> Response:
    message = "Invalid API Token. Create one with `holdfast token create`, or with `primehub config generate-token`."
    response = respond_refusal(PhError(message, "ACCESS_TOKEN_EXPIRED"), 401)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


# -- other endpoints


def respond_plain_error(error: UserError | PhError) -> Response:
    if isinstance(error, NotLoggedIn):
        return _build_plain_response(401, "NOT_AUTH", "Invalid API Token")
    if isinstance(error, PhError):
        return _build_plain_response(_get_status(error.code), error.code, error.message)
    return _build_plain_response(STATUS_CODES.get(error.code, 400), translate_error(error).code, error_to_line(error))


def _get_status(code: str) -> int:
    return {NOT_AUTH: 403, NOT_FOUND: 404, CONFLICT: 409, INTERNAL: 500, UNAVAILABLE: 503}.get(code, 400)


def _build_plain_response(status: int, code: str, message: str) -> Response:
    return respond_json({"code": code, "message": message[:MAX_MESSAGE_LENGTH]}, status)


def render_unhandled_error(path: str, error: UserError | None, request_id: str) -> Response:
    """Render an error outside of all endpoints; None is an unexpected error."""
    if path != GRAPHQL_PATH:
        return respond_plain_error(error or build_internal_error(request_id))
    refusal = build_internal_error(request_id) if error is None else translate_error(error)
    return respond_refusal(refusal, 500 if error is None else STATUS_CODES.get(error.code, 400))


GRAPHQL_PATH = "/api/graphql"
