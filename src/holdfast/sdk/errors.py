"""What can go wrong between a client and a server.

HoldfastError
└── ClientError
    ├── ApiError         the server refused; carries its code, message, hint and request id
    ├── CannotConnect    no answer: nothing listens, or the connection was lost
    ├── UnexpectedReply  something answers, but not as Holdfast does
    ├── UnprovenServer   what answers is not the server that issued the token
    └── BadAddress       an address or a token that cannot be used
"""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import HoldfastError, Problem


class ClientError(HoldfastError):
    """Root of the client's errors: what happened, and what to try."""

    code = "client_error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def as_json(self) -> dict[str, Any]:
        """The same shape as the server's own errors."""
        error = {"code": self.code, "message": self.message, "field": None, "hint": self.hint, "request_id": None}
        return {"error": error}


class ApiError(ClientError):
    """The server's own words about a request it could not fulfil."""

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
        self.problems = problems  # of a job file; empty for everything else
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
    """No answer. `lost`: the request may have reached the server before the line broke. `silent`: the line held, but
    no word came in time."""

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
    """Something answers there, but not as this version of Holdfast does."""

    code = "unexpected_reply"


class UnprovenServer(ClientError):
    """What answers cannot prove that it is the server that issued our token."""

    code = "unproven_server"

    def __init__(self, url: str) -> None:
        super().__init__(
            f"What answers at {url} is not the server that issued your token. The token was not sent",
            hint="Check the address, and ask the server's admin. After a new installation: `holdfast login URL`.",
        )
        self.url = url


class BadAddress(ClientError):
    """An address or a token that cannot be used."""

    code = "bad_address"
