"""The outermost middleware: request ID, body size limit, security headers, and handling of unexpected errors.

A body is complete before the application sees the request: a sender can keep it open for any time, and must not act
with the permissions from its start. Streamed uploads have an access guard instead.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.errors import TooLarge, UserError
from holdfast.core.messages import msg
from holdfast.services.audit import CLIENT_ADDRESS
from holdfast.services.files.open_file import FileTruncated

from .errors import BodyTooLarge, render_unhandled_error
from .slow_clients import SENDER_KNOWN_KEY

log = logging.getLogger(__name__)

MAX_ANONYMOUS_BODY_SIZE = 16 * 1024  # bytes accepted from a client that is not logged in: enough to log in
MAX_HEADERS_SIZE = 64 * 1024  # bytes of the request headers: they are parsed before authentication
MAX_DRAIN_SIZE = 8 * 1024 * 1024  # bytes
DRAIN_TIMEOUT = 1.0  # seconds

_REQUEST_ID_PATTERN = re.compile(rb"[A-Za-z0-9._:-]{1,64}\Z")

_SECURITY_HEADERS: list[tuple[bytes, bytes]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
]
_NO_STORE_HEADER = (b"cache-control", b"no-store")

BodyLimitLookup = Callable[[str, str], int]  # method, path -> maximum size of the body in bytes
StreamedCheck = Callable[[str, str], bool]  # method, path -> whether the handler guards access while the body arrives
KnownSenderCheck = Callable[[Scope], Awaitable[bool]]  # whether the sender of the request is logged in
RefusalRenderer = Callable[
    [Scope, UserError | None, str], Response
]  # request, error (None: unexpected), ID -> response


def _render_default_refusal(scope: Scope, error: UserError | None, request_id: str) -> Response:
    return render_unhandled_error(error, request_id)


async def _assume_known_sender(scope: Scope) -> bool:
    return True


def _ignore_sender() -> None:
    pass


def _assume_not_streamed(method: str, path: str) -> bool:
    return False


class RequestMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        *,
        limit: BodyLimitLookup,
        refuse: RefusalRenderer = _render_default_refusal,
        knows: KnownSenderCheck = _assume_known_sender,
        is_streamed: StreamedCheck = _assume_not_streamed,
    ) -> None:
        self._app = app
        self._limit = limit
        self._is_streamed = is_streamed
        self._refuse = refuse
        self._check_sender = knows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await (_reject_websocket(send) if _has_long_headers(scope) else self._app(scope, receive, send))
            return
        CLIENT_ADDRESS.set(_get_peer_address(scope))
        limit = self._limit(scope["method"], scope["path"])
        streamed = self._is_streamed(scope["method"], scope["path"])
        await _RequestContext(scope, receive, send, limit, self._refuse, self._check_sender).run_app(
            self._app, streamed=streamed
        )


def _get_peer_address(scope: Scope) -> str:
    """Return the client's address. A header counts only if a trusted proxy wrote it: see forwarded."""
    return scope["client"][0] if scope.get("client") else ""


def _has_long_headers(scope: Scope) -> bool:
    return sum(len(name) + len(value) for name, value in scope.get("headers", ())) > MAX_HEADERS_SIZE


async def _reject_websocket(send: Send) -> None:
    await send({"type": "websocket.close", "code": 1009})


async def _receive_whole_body(receive: Receive) -> Receive:
    """Wait for the whole body; return a receiver that replays it, and raises its errors there."""
    body = bytearray()
    while True:
        try:
            message = await receive()
        except Exception as error:
            return _ReplayReceiver(error, b"", receive).receive
        body += message.get("body", b"")
        if not message.get("more_body"):
            return _ReplayReceiver(message, bytes(body), receive).receive


class _ReplayReceiver:
    def __init__(self, last: Message | Exception, body: bytes, receive: Receive) -> None:
        self._last: Message | Exception | None = last
        self._body = body
        self._receive = receive

    async def receive(self) -> Message:
        last, self._last = self._last, None
        if last is None:
            return await self._receive()
        if isinstance(last, Exception):
            raise last
        return {**last, "body": self._body} if last["type"] == "http.request" else last


class _RequestContext:
    def __init__(
        self, scope: Scope, receive: Receive, send: Send, limit: int, refuse: RefusalRenderer, knows: KnownSenderCheck
    ) -> None:
        self._scope = {**scope, "holdfast.head": scope["method"] == "HEAD"}
        self._receive, self._send = receive, send
        self._limit = limit
        self._refuse = refuse
        self._check_sender = knows
        self._is_known = False
        self._received_size = 0
        self._has_started_response = False
        self._id = b""
        self._declared_size = -1
        self._expects_continue = False  # before it sends the body
        self._has_body = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        self._parse_headers()

    def _parse_headers(self) -> None:
        for name, value in self._scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID_PATTERN.match(value):
                self._id = value
            elif name == b"content-length" and value.isdigit():
                self._declared_size = int(value[:20])
                self._has_body = self._has_body or self._declared_size > 0
            elif name == b"transfer-encoding":
                self._has_body = True
            elif name == b"expect":
                self._expects_continue = True
        self._id = self._id or b"%016x" % random.getrandbits(64)  # distinguishes requests, not used for security
        self._scope["holdfast.request_id"] = self._id.decode("ascii")
        if self._scope["holdfast.head"]:
            self._scope["method"] = "GET"  # the same response, its body is dropped below

    async def run_app(self, app: ASGIApp, *, streamed: bool) -> None:
        if _has_long_headers(self._scope):
            self._scope["headers"] = []  # the code that renders the error does not read them either
            await self._send_refusal(
                TooLarge(msg("The request headers exceed the limit of {headers} bytes", headers=MAX_HEADERS_SIZE))
            )
            return
        if self._declared_size > self._limit:
            if not self._expects_continue:
                await self._drain_body()
            refusal = TooLarge(
                msg(
                    "The request declares {declared} bytes; the limit is {limit} bytes",
                    limit=self._limit,
                    declared=self._declared_size,
                )
            )
            await self._send_refusal(refusal)
            return
        try:
            whole = self._has_body and not streamed
            receive = await _receive_whole_body(self.receive) if whole else self.receive
            await app(self._scope, receive, self.send)
        except ClientDisconnect:
            return  # the client disconnected while sending; no response is possible
        except Exception as error:
            if self._has_started_response and isinstance(error, FileTruncated):
                self._log_truncated_file()
                return  # without the final chunk, so that the connection is cut
            log.exception(
                "request failed",
                extra={"event": "internal-error", "request_id": self._id.decode(), "path": self._scope["path"]},
            )
            if self._has_started_response:
                raise  # too late for a response: the connection is cut, so that the client sees that it is incomplete
            await self._send_refusal(None)

    def _log_truncated_file(self) -> None:
        """Log in one line: any user who writes a file can cause this, and it is not a bug."""
        log.warning(
            "a file was truncated while it was sent",
            extra={"event": "shortened", "request_id": self._id.decode(), "path": self._scope["path"]},
        )

    async def _send_refusal(self, error: UserError | None) -> None:
        response = self._refuse(self._scope, error, self._id.decode())
        await response(self._scope, self._receive, self.send)

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received_size += len(message.get("body", b""))
            limit = self._limit if self._received_size <= MAX_ANONYMOUS_BODY_SIZE else await self._get_sender_limit()
            if self._received_size > limit:
                if message.get("more_body"):
                    await self._drain_body()
                raise BodyTooLarge(limit, logged_in=limit == self._limit)
        return message

    async def _get_sender_limit(self) -> int:
        """Return the limit for this sender. Most handlers read the whole body before authentication."""
        if not self._is_known and await self._check_sender(self._scope):
            self._is_known = True
            self._scope.get(SENDER_KNOWN_KEY, _ignore_sender)()
        return self._limit if self._is_known else min(self._limit, MAX_ANONYMOUS_BODY_SIZE)

    async def _drain_body(self) -> None:
        """Read some of the rest: a client that is still sending would not see why the connection was closed."""
        left = MAX_DRAIN_SIZE
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT):
                while left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body"):
                        return

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started_response = True
            message["headers"] = self._add_own_headers(message.get("headers", ()))
        elif self._scope["holdfast.head"]:
            message = {**message, "body": b""}
        await self._send(message)

    def _add_own_headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        theirs = {name.lower() for name, _ in headers}
        ours = [(b"x-request-id", self._id), *(h for h in _SECURITY_HEADERS if h[0] not in theirs)]
        if b"cache-control" not in theirs:
            ours.append(_NO_STORE_HEADER)
        return [*headers, *ours]
