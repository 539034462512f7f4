"""Errors of the client.

HoldfastError
└── ClientError
    ├── ApiError             the server rejected the request; has its code, message, hint and request id
    ├── CannotConnect        no response: connection refused or lost
    ├── UnexpectedReply      the response is not from a compatible Holdfast server
    ├── UnprovenServer       the server did not issue the token
    └── InvalidClientConfig  an address or a token that cannot be used
"""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import HoldfastError, Problem


class ClientError(HoldfastError):
    """Base class of client errors, with message and hint."""

    code = "client_error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def as_json(self) -> dict[str, Any]:
        """Return the error in the format of the API."""
        error = {"code": self.code, "message": self.message, "field": None, "hint": self.hint, "request_id": None}
        return {"error": error}


class ApiError(ClientError):
    """An error response of the server."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        hint: str | None = None,
        field: str | None = None,
        problems: tuple[Problem, ...] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.status = status
        self.field = field
        self.problems = problems  # of an invalid job file, else empty
        self.request_id = request_id

    def as_json(self) -> dict[str, Any]:
        shape = super().as_json()
        shape["error"] |= {"field": self.field, "request_id": self.request_id}
        if self.problems:
            shape["error"]["problems"] = [
                {"field": p.field, "message": p.message, "hint": p.hint, "line": p.line} for p in self.problems
            ]
        return shape


class CannotConnect(ClientError):
    """No response. `lost`: the connection broke and the server may have received the request. `silent`: it is open, but
    the response timed out."""

    code = "cannot_connect"

    def __init__(
        self, url: str, reason: str, *, lost: bool = False, silent: bool = False, hint: str | None = None
    ) -> None:
        if lost:
            message = f"Lost the connection to {url}: {reason}"
        else:
            message = f"Cannot connect to {url}: {reason}"
        super().__init__(message, hint=hint)
        self.url = url
        self.lost = lost
        self.silent = silent


class UnexpectedReply(ClientError):
    """The response is not from a compatible Holdfast server."""

    code = "unexpected_reply"


class UnprovenServer(ClientError):
    """The server cannot prove that it issued the token."""

    code = "unproven_server"

    def __init__(self, url: str) -> None:
        super().__init__(
            f"The server at {url} did not issue your token. The token was not sent",
            hint="Check the address, or ask an admin. If the server was reinstalled, run `holdfast login URL`.",
        )
        self.url = url


class InvalidClientConfig(ClientError):
    """An address or a token that cannot be used."""

    code = "bad_address"
