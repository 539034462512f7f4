"""Errors in OpenPAI's shape: a status, and {"code", "message"}."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.responses import JSONResponse, Response

from holdfast.core.errors import UserError
from holdfast.services.refusals import TooManyRequests


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
                raise PaiError(status, code, error.message if message is None else message) from error
        raise


def render(error: PaiError | UserError) -> Response:
    if isinstance(error, UserError):
        status, code = _USUAL.get(error.code, (400, "InvalidParametersError"))
        said = error.message if not error.hint else f"{error.message}. {error.hint}"
        headers = {"Retry-After": str(max(1, round(error.retry_after)))} if isinstance(error, TooManyRequests) else None
        return _answer(status, code, said, headers)
    return _answer(error.status, error.code, error.message)


def _answer(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body: dict[str, Any] = {"code": code, "message": message}
    return JSONResponse(body, status, headers)
