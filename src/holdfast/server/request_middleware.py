"""The outermost layer around every request: its id, its size limit, safe headers, and a last net under our mistakes.

A body is complete before the application sees the request: a sender can hold it open for as long as they like, and must
not act by the rights they had when they began. Uploads that are streamed have an access guard instead.
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
from holdfast.services.files.open_file import Shortened

from .errors import TooLargeBody, render_outermost
from .slow_clients import SENDER_KNOWN

log = logging.getLogger(__name__)

STRANGERS = 16 * 1024  # bytes that are taken of whoever is not logged in: enough to log in by
HEADERS = 64 * 1024  # bytes of a request's headers: they are looked through before anybody asks who sends them
DRAIN = 8 * 1024 * 1024  # bytes
DRAIN_FOR = 1.0  # seconds

_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}\Z")

_HEADERS: list[tuple[bytes, bytes]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
]
_NO_STORE = (b"cache-control", b"no-store")

Limit = Callable[[str, str], int]  # method, path -> most bytes of its body
IsStreamed = Callable[[str, str], bool]  # method, path -> whether the handler itself guards access while the body comes
Knows = Callable[[Scope], Awaitable[bool]]  # whether the request comes from somebody who is logged in
Refuse = Callable[[Scope, UserError | None, str], Response]  # request, why (None: our mistake), its id -> the answer


def _refuse(scope: Scope, error: UserError | None, request_id: str) -> Response:
    return render_outermost(error, request_id)


async def _knows(scope: Scope) -> bool:
    return True


def _ignore() -> None:
    pass


def _is_streamed(method: str, path: str) -> bool:
    return False


class Border:
    def __init__(
        self,
        app: ASGIApp,
        *,
        limit: Limit,
        refuse: Refuse = _refuse,
        knows: Knows = _knows,
        is_streamed: IsStreamed = _is_streamed,
    ) -> None:
        self._app = app
        self._limit = limit
        self._is_streamed = is_streamed
        self._refuse = refuse
        self._knows = knows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await (_refuse_socket(send) if _has_long_headers(scope) else self._app(scope, receive, send))
            return
        CLIENT_ADDRESS.set(_address(scope))
        limit = self._limit(scope["method"], scope["path"])
        streamed = self._is_streamed(scope["method"], scope["path"])
        await _Request(scope, receive, send, limit, self._refuse, self._knows).run(self._app, streamed=streamed)


def _address(scope: Scope) -> str:
    """Where it came from. A header says so only where a trusted proxy wrote it: see forwarded."""
    return scope["client"][0] if scope.get("client") else ""


def _has_long_headers(scope: Scope) -> bool:
    return sum(len(name) + len(value) for name, value in scope.get("headers", ())) > HEADERS


async def _refuse_socket(send: Send) -> None:
    await send({"type": "websocket.close", "code": 1009})


async def _receive_all(receive: Receive) -> Receive:
    """Wait for the whole body; return what hands it on. What goes wrong is raised there, for the handler to word it."""
    body = bytearray()
    while True:
        try:
            message = await receive()
        except Exception as error:
            return _Replay(error, b"", receive).receive
        body += message.get("body", b"")
        if not message.get("more_body"):
            return _Replay(message, bytes(body), receive).receive


class _Replay:
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


class _Request:
    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int, refuse: Refuse, knows: Knows) -> None:
        self._scope = {**scope, "holdfast.head": scope["method"] == "HEAD"}
        self._receive, self._send = receive, send
        self._limit = limit
        self._refuse = refuse
        self._knows = knows
        self._is_known = False
        self._read = 0
        self._started = False
        self._id = b""
        self._declared = -1
        self._asks_first = False  # before it sends the body
        self._has_body = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        self._look_at_headers()

    def _look_at_headers(self) -> None:
        for name, value in self._scope["headers"]:
            if name == b"x-request-id" and _SANE_ID.match(value):
                self._id = value
            elif name == b"content-length" and value.isdigit():
                self._declared = int(value[:20])
                self._has_body = self._has_body or self._declared > 0
            elif name == b"transfer-encoding":
                self._has_body = True
            elif name == b"expect":
                self._asks_first = True
        self._id = self._id or b"%016x" % random.getrandbits(64)  # tells requests apart, guards nothing
        self._scope["holdfast.request_id"] = self._id.decode("ascii")
        if self._scope["holdfast.head"]:
            self._scope["method"] = "GET"  # the same answer, whose body is left out below

    async def run(self, app: ASGIApp, *, streamed: bool) -> None:
        if _has_long_headers(self._scope):
            self._scope["headers"] = []  # whoever words the refusal does not read them either
            await self._refuse_with(
                TooLarge(msg("The headers of a request may have at most {headers} bytes", headers=HEADERS))
            )
            return
        if self._declared > self._limit:
            if not self._asks_first:
                await self._drain()
            refusal = TooLarge(
                msg(
                    "The request may have at most {limit} bytes, this one says {declared}",
                    limit=self._limit,
                    declared=self._declared,
                )
            )
            await self._refuse_with(refusal)
            return
        try:
            whole = self._has_body and not streamed
            receive = await _receive_all(self.receive) if whole else self.receive
            await app(self._scope, receive, self.send)
        except ClientDisconnect:
            return  # it left while sending; nobody waits for an answer
        except Exception as error:
            if self._started and isinstance(error, Shortened):
                self._tell_shortened()
                return  # without an end, at which the connection is cut
            log.exception(
                "request failed",
                extra={"event": "internal-error", "request_id": self._id.decode(), "path": self._scope["path"]},
            )
            if self._started:
                raise  # too late for an answer: the connection is cut, so that the client sees it is not whole
            await self._refuse_with(None)

    def _tell_shortened(self) -> None:
        """Anyone who writes a file can do this, as often as they like: nobody's mistake, so in few words."""
        log.warning(
            "a file became shorter while it was sent",
            extra={"event": "shortened", "request_id": self._id.decode(), "path": self._scope["path"]},
        )

    async def _refuse_with(self, error: UserError | None) -> None:
        response = self._refuse(self._scope, error, self._id.decode())
        await response(self._scope, self._receive, self.send)

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            limit = self._limit if self._read <= STRANGERS else await self._limit_of_sender()
            if self._read > limit:
                if message.get("more_body"):
                    await self._drain()
                raise TooLargeBody(limit, logged_in=limit == self._limit)
        return message

    async def _limit_of_sender(self) -> int:
        """Most handlers read all of a body before they ask who sent it, and anyone can send many at a time."""
        if not self._is_known and await self._knows(self._scope):
            self._is_known = True
            self._scope.get(SENDER_KNOWN, _ignore)()
        return self._limit if self._is_known else min(self._limit, STRANGERS)

    async def _drain(self) -> None:
        """Take some of what is still coming: a client that is busy sending would not see why it was cut off."""
        left = DRAIN
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_FOR):
                while left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body"):
                        return

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            message["headers"] = self._with_ours(message.get("headers", ()))
        elif self._scope["holdfast.head"]:
            message = {**message, "body": b""}
        await self._send(message)

    def _with_ours(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        theirs = {name.lower() for name, _ in headers}
        ours = [(b"x-request-id", self._id), *(h for h in _HEADERS if h[0] not in theirs)]
        if b"cache-control" not in theirs:
            ours.append(_NO_STORE)
        return [*headers, *ours]
