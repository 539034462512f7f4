"""Errors in PrimeHub's shapes: in a list with codes from GraphQL, {"code", "message"} from its other addresses.
Those of single fields are told by field_errors.py, which needs the GraphQL library."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.core.errors import NotLoggedIn, UserError
from holdfast.server.answers import answer
from holdfast.server.errors import STATUS
from holdfast.services.refusals import NotInGroup, OverQuota, store_unavailable
from holdfast.store.errors import StoreError

NOT_AUTH = "NOT_AUTH"
NOT_FOUND = "RESOURCE_NOT_FOUND"
CONFLICT = "RESOURCE_CONFLICT"
INVALID = "REQUEST_BODY_INVALID"
UNAVAILABLE = "API_UNAVAILABLE"
INTERNAL = "INTERNAL_SERVER_ERROR"
BAD_QUERY = "GRAPHQL_VALIDATION_FAILED"
USER_NOT_EXIST = "USER_NOT_EXIST"

MAX_LENGTH = 2000  # characters of a message: some of them repeat what was sent


class PhError(Exception):
    """A refusal in PrimeHub's own words."""

    def __init__(self, message: str, code: str = INVALID) -> None:
        super().__init__(message)
        self.message, self.code = message, code


# What services refuse, where nobody has said it more exactly.
_CODES: dict[str, str] = {
    "not_logged_in": NOT_AUTH,
    "forbidden": NOT_AUTH,
    "not_found": NOT_FOUND,
    "no_log": NOT_FOUND,
    "expired": NOT_FOUND,
    "conflict": CONFLICT,
    "too_many_requests": UNAVAILABLE,
    "unavailable": UNAVAILABLE,
}


def not_auth() -> PhError:
    return PhError("user not auth", NOT_AUTH)


def not_found(plural: str, id: str) -> PhError:
    """Clients know by this very text that something is not there: `phjobs`, `phschedules`, `images`, ..."""
    return PhError(f'{plural}.primehub.io "{id[:100]}" not found', NOT_FOUND)


def resource_exists() -> PhError:
    return PhError("Resource already exist", CONFLICT)


def translate(error: UserError) -> PhError:
    if isinstance(error, NotInGroup):
        return not_auth()
    if isinstance(error, OverQuota):
        return PhError(error.primehub, "EXCEED_QUOTA")
    return PhError(say(error), _CODES.get(error.code, INVALID))


def say(error: UserError) -> str:
    """A refusal of ours in one line. To name a command of ours is no use to those who have PrimeHub's."""
    hint = error.hint if error.hint and not error.hint.startswith("`holdfast ") else None
    return f"{error.message}. {hint}" if hint else error.message


# -- of whole requests


def store_failed(error: StoreError) -> PhError:
    told = store_unavailable(error, "The server's log says more.")
    return PhError(f"{told.message}. {told.hint}", UNAVAILABLE)


def internal(request_id: str) -> PhError:
    return PhError(f"Internal error. Look for {request_id} in the server's log.", INTERNAL)


def answer_refusal(error: PhError, status: int) -> Response:
    """Of a whole request."""
    listed = {"message": error.message[:MAX_LENGTH], "extensions": {"code": error.code}}
    return answer({"errors": [listed], "data": None}, status)


def answer_not_logged_in() -> Response:
    said = "Invalid API Token. Make one with `holdfast token create`, or with `primehub config generate-token`."
    response = answer_refusal(PhError(said, "ACCESS_TOKEN_EXPIRED"), 401)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


# -- other addresses


def answer_plainly(error: UserError | PhError) -> Response:
    if isinstance(error, NotLoggedIn):
        return _plain(401, "NOT_AUTH", "Invalid API Token")
    if isinstance(error, PhError):
        return _plain(_status(error.code), error.code, error.message)
    return _plain(STATUS.get(error.code, 400), translate(error).code, say(error))


def _status(code: str) -> int:
    return {NOT_AUTH: 403, NOT_FOUND: 404, CONFLICT: 409, INTERNAL: 500, UNAVAILABLE: 503}.get(code, 400)


def _plain(status: int, code: str, message: str) -> Response:
    return answer({"code": code, "message": message[:MAX_LENGTH]}, status)


def render_outermost(path: str, error: UserError | None, request_id: str) -> Response:
    """For what never came to an address, or went wrong there in a way we did not foresee (None)."""
    if path != GRAPHQL:
        return answer_plainly(error or internal(request_id))
    refusal = internal(request_id) if error is None else translate(error)
    return answer_refusal(refusal, 500 if error is None else STATUS.get(error.code, 400))


GRAPHQL = "/api/graphql"
