"""One POST to a receiver that was looked at, and what came of it. Nothing of the answer is read but its head."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpcore

from holdfast.core.messages import msg

from .delivery import Claim, DeliveryAttempt, DeliveryResult, Request
from .webhook_targets import Receiver

CONNECT_SECONDS = 10.0
MAX_ASKED_WAIT = timedelta(hours=6)  # by a receiver that has too much to do
AGAIN = frozenset({408, 425, 429})
MAX_HEAD_LENGTH = 16 * 1024  # bytes of an answer; a receiver that says more before its status is not listened to
PIECE = 2048  # bytes of it that are taken apart before others have their turn


async def post(receiver: Receiver, request: Request, claim: Claim, timeout: float, now: datetime) -> DeliveryAttempt:
    progress = _Progress(claim)
    attempt: DeliveryAttempt | None = None
    try:
        async with (
            asyncio.timeout(CONNECT_SECONDS + timeout),
            httpcore.AsyncConnectionPool(ssl_context=_tls(), network_backend=_OnlyTo(receiver, progress)) as pool,
            pool.stream(
                "POST",
                request.url,
                headers=request.headers,
                content=request.body,
                extensions={"timeout": _limits(timeout), "trace": progress.trace},
            ) as response,
        ):
            attempt = _judge(response.status, response.headers, now)
    except _Taken:
        return DeliveryAttempt(DeliveryResult.TAKEN)
    except (httpcore.TimeoutException, TimeoutError):
        attempt = attempt or _late(progress, timeout)
    except httpcore.ConnectError as error:
        attempt = attempt or DeliveryAttempt(DeliveryResult.LATER, _plain(error))
    except httpcore.RemoteProtocolError:
        attempt = attempt or _garbled(progress)
    except (httpcore.NetworkError, httpcore.ProtocolError):
        attempt = attempt or DeliveryAttempt(DeliveryResult.LATER, msg("the connection was closed without an answer"))
    return attempt


def _limits(timeout: float) -> dict[str, float]:
    return {"connect": CONNECT_SECONDS, "read": timeout, "write": timeout, "pool": timeout}


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _judge(status: int, headers: Iterable[tuple[bytes, bytes]], now: datetime) -> DeliveryAttempt:
    said = msg("answered {status}", status=status)
    if 200 <= status < 300:
        return DeliveryAttempt(DeliveryResult.SENT, said)
    if status in AGAIN or status >= 500:
        asked = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
        return DeliveryAttempt(DeliveryResult.LATER, said, _asked_wait(asked.decode("latin-1"), now))
    if 300 <= status < 400:
        said += msg(", and redirects are not followed")
    return DeliveryAttempt(DeliveryResult.REFUSED, said)


def _late(progress: _Progress, timeout: float) -> DeliveryAttempt:
    if progress.whole:
        return DeliveryAttempt(DeliveryResult.UNSURE, msg("no answer within {timeout} seconds", timeout=f"{timeout:g}"))
    return DeliveryAttempt(DeliveryResult.LATER, msg("could not connect in time"))


def _garbled(progress: _Progress) -> DeliveryAttempt:
    """It hung up, or said something that is no answer: then it may well have taken the notification."""
    if progress.whole and progress.heard:
        return DeliveryAttempt(DeliveryResult.UNSURE, msg("what it answered is not HTTP"))
    return DeliveryAttempt(DeliveryResult.LATER, msg("the connection was closed without an answer"))


def _plain(error: BaseException | None) -> str:
    """Why there is no connection, from whatever lies beneath."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return msg("nothing takes connections there")
        if isinstance(error, ssl.SSLError):
            return msg("TLS failed")
        error = error.__cause__ or error.__context__
    return msg("could not connect")


def _asked_wait(text: str, now: datetime) -> timedelta:
    """Of a Retry-After header: seconds, or a date."""
    try:
        if text.strip().isdecimal():
            wait = timedelta(seconds=min(int(text.strip()[:9]), MAX_ASKED_WAIT.total_seconds()))
        else:
            until = parsedate_to_datetime(text)
            wait = (until if until.tzinfo else until.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return timedelta()
    return min(max(wait, timedelta()), MAX_ASKED_WAIT)


class _Taken(Exception):
    """Somebody else is sending it."""


class _Progress:
    """How far a request has come."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.whole = False  # all of it has left
        self.heard = False  # something attempt back

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        if event == "http11.send_request_headers.started" and not await self._claim():
            raise _Taken
        if event == "http11.send_request_body.complete":
            self.whole = True


class _Bounded(httpcore.AsyncNetworkStream):
    """A connection of which only so much is read, and never without letting others have their turn."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, progress: _Progress, left: int = MAX_HEAD_LENGTH) -> None:
        self._stream = stream
        self._progress = progress
        self._left = left

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._left <= 0:
            raise httpcore.RemoteProtocolError(msg("the answer has no end"))
        data = await self._stream.read(min(max_bytes, self._left, PIECE), timeout)
        await asyncio.sleep(0)
        self._left -= len(data)
        self._progress.heard = self._progress.heard or bool(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        secure = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _Bounded(secure, self._progress, self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _OnlyTo(httpcore.AsyncNetworkBackend):
    """Connects to the addresses that were looked at, whatever the name stands for by now."""

    def __init__(self, receiver: Receiver, progress: _Progress) -> None:
        self._receiver = receiver
        self._progress = progress
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        error: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in self._receiver.addresses:
            try:
                stream = await self._plain.connect_tcp(address, self._receiver.port, timeout=timeout)
                return _Bounded(stream, self._progress)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error or httpcore.ConnectError(msg("no address"))

    async def sleep(self, seconds: float) -> None:
        await self._plain.sleep(seconds)
