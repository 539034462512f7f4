"""Errors in OpenPAI's shape: a status, and {"code", "message"}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.server.answers import answer
from holdfast.services.refusals import TooManyRequests, store_unavailable
from holdfast.store.errors import StoreError

from .cross_origin import OPEN


class PaiError(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


# What services refuse, where no handler has said it more exactly.
_USUAL: dict[str, tuple[int, str]] = {
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
def telling(*cases: tuple[type[UserError], int, str, str | None]) -> Iterator[None]:
    """Within it, a refusal of one of these types leaves with that status, code and message (None: its own)."""
    try:
        yield
    except UserError as error:
        for kind, status, code, message in cases:
            if isinstance(error, kind):
                raise PaiError(status, code, say(error) if message is None else message) from error
        raise


def say(error: UserError) -> str:
    """A refusal of ours in one line."""
    return error.message if not error.hint else f"{error.message}. {error.hint}"


def render(error: PaiError | UserError) -> Response:
    if isinstance(error, UserError):
        status, code = _USUAL.get(error.code, (400, "InvalidParametersError"))
        return answer_error(status, code, say(error), _headers(error))
    return answer_error(error.status, error.code, error.message)


def answer_error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    response = answer({"code": code, "message": message}, status)
    response.headers.update(headers or {})
    return response


_ELSEWHERE = {("POST", "/api/v1/jobs"): "Jobs of the first protocol are sent to POST /api/v1/user/<user>/jobs."}


def no_api(url: str, method: str = "GET") -> PaiError:
    elsewhere = _ELSEWHERE.get((method, url.partition("?")[0].rstrip("/")))
    said = f"API {url[:500]} is not found."
    return PaiError(404, "NoApiError", f"{said} {elsewhere}" if elsewhere else said)


def no_guest() -> PaiError:
    return PaiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")


def store_failed(error: StoreError) -> PaiError:
    told = store_unavailable(error, "The server's log says more.")
    return PaiError(503, "UnknownError", f"{told.message}. {told.hint}")


def render_outermost(error: UserError | None, request_id: str) -> Response:
    """For what never came to an address, or went wrong there in a way we did not foresee (None)."""
    if error is not None:
        response = render(error)
    else:
        said = f"Something went wrong here that we did not foresee. Look for {request_id} in the server's log."
        response = answer_error(500, "UnknownError", said)
    response.headers.update(OPEN)
    return response


def _headers(error: UserError) -> dict[str, str]:
    if isinstance(error, TooManyRequests):
        return {"Retry-After": str(max(1, round(error.retry_after)))}
    if error.code == "too_large":
        return {"Connection": "close"}  # the rest of the body is not read
    return {}
