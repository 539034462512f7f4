"""One POST to a resolved receiver, and its result. Only the head of the response is read."""

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

from .delivery import ClaimCallback, DeliveryAttempt, DeliveryResult, WebhookRequest
from .webhook_targets import WebhookHost

CONNECT_TIMEOUT = 10.0  # seconds
MAX_RETRY_AFTER = timedelta(hours=6)  # upper limit for a receiver's Retry-After
RETRY_STATUSES = frozenset({408, 425, 429})
MAX_HEAD_LENGTH = 16 * 1024  # bytes of a response head
READ_SIZE = 2048  # bytes parsed before yielding to other tasks


async def post_webhook(
    receiver: WebhookHost, request: WebhookRequest, claim: ClaimCallback, timeout: float, now: datetime
) -> DeliveryAttempt:
    progress = _RequestProgress(claim)
    timeouts = {"connect": CONNECT_TIMEOUT, "read": timeout, "write": timeout, "pool": timeout}
    attempt: DeliveryAttempt | None = None
    try:
        async with (
            asyncio.timeout(CONNECT_TIMEOUT + timeout),
            httpcore.AsyncConnectionPool(
                ssl_context=_get_tls_context(), network_backend=_PinnedBackend(receiver, progress)
            ) as pool,
            pool.stream(
                "POST",
                request.url,
                headers=request.headers,
                content=request.body,
                extensions={"timeout": timeouts, "trace": progress.trace_event},
            ) as response,
        ):
            attempt = _evaluate_response(response.status, response.headers, now)
    except _ClaimRefused:
        return DeliveryAttempt(DeliveryResult.CLAIMED_ELSEWHERE)
    except (httpcore.TimeoutException, TimeoutError):
        attempt = attempt or _evaluate_timeout(progress, timeout)
    except httpcore.ConnectError as error:
        attempt = attempt or DeliveryAttempt(DeliveryResult.DEFERRED, _describe_connect_error(error))
    except httpcore.RemoteProtocolError:
        attempt = attempt or _evaluate_protocol_error(progress)
    except (httpcore.NetworkError, httpcore.ProtocolError):
        attempt = attempt or DeliveryAttempt(
            DeliveryResult.DEFERRED, msg("the connection was closed without a response")
        )
    return attempt


@cache
def _get_tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _evaluate_response(status: int, headers: Iterable[tuple[bytes, bytes]], now: datetime) -> DeliveryAttempt:
    message = msg("responded with {status}", status=status)
    if 200 <= status < 300:
        return DeliveryAttempt(DeliveryResult.SENT, message)
    if status in RETRY_STATUSES or status >= 500:
        retry_after = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
        return DeliveryAttempt(DeliveryResult.DEFERRED, message, _parse_retry_after(retry_after.decode("latin-1"), now))
    if 300 <= status < 400:
        message += msg(", and redirects are not followed")
    return DeliveryAttempt(DeliveryResult.REFUSED, message)


def _evaluate_timeout(progress: _RequestProgress, timeout: float) -> DeliveryAttempt:
    if progress.sent:
        return DeliveryAttempt(
            DeliveryResult.UNCONFIRMED, msg("no response within {timeout} seconds", timeout=f"{timeout:g}")
        )
    return DeliveryAttempt(DeliveryResult.DEFERRED, msg("the connection timed out"))


def _evaluate_protocol_error(progress: _RequestProgress) -> DeliveryAttempt:
    """Evaluate a closed connection or an invalid response, after which the notification may have been accepted."""
    if progress.sent and progress.responded:
        return DeliveryAttempt(DeliveryResult.UNCONFIRMED, msg("the response is not HTTP"))
    return DeliveryAttempt(DeliveryResult.DEFERRED, msg("the connection was closed without a response"))


def _describe_connect_error(error: BaseException | None) -> str:
    """Describe a connection error by its underlying cause."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return msg("the connection was refused")
        if isinstance(error, ssl.SSLError):
            return msg("TLS failed")
        error = error.__cause__ or error.__context__
    return msg("could not connect")


def _parse_retry_after(text: str, now: datetime) -> timedelta:
    """Parse a Retry-After header: seconds or a date."""
    try:
        if text.strip().isdecimal():
            wait = timedelta(seconds=min(int(text.strip()[:9]), MAX_RETRY_AFTER.total_seconds()))
        else:
            until = parsedate_to_datetime(text)
            wait = (until if until.tzinfo else until.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return timedelta()
    return min(max(wait, timedelta()), MAX_RETRY_AFTER)


class _ClaimRefused(Exception):
    """Another sender has claimed the notification."""


class _RequestProgress:
    """The progress of a request."""

    def __init__(self, claim: ClaimCallback) -> None:
        self._claim = claim
        self.sent = False  # sent completely
        self.responded = False  # some response arrived

    async def trace_event(self, event: str, info: dict[str, Any]) -> None:
        if event == "http11.send_request_headers.started" and not await self._claim():
            raise _ClaimRefused
        if event == "http11.send_request_body.complete":
            self.sent = True


class _BoundedStream(httpcore.AsyncNetworkStream):
    """A connection with limited reads that yields to other tasks after each."""

    def __init__(
        self, stream: httpcore.AsyncNetworkStream, progress: _RequestProgress, left: int = MAX_HEAD_LENGTH
    ) -> None:
        self._stream = stream
        self._progress = progress
        self._bytes_left = left

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._bytes_left <= 0:
            raise httpcore.RemoteProtocolError(msg("the response headers are too long"))
        data = await self._stream.read(min(max_bytes, self._bytes_left, READ_SIZE), timeout)
        await asyncio.sleep(0)
        self._bytes_left -= len(data)
        self._progress.responded = self._progress.responded or bool(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        secure = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _BoundedStream(secure, self._progress, self._bytes_left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to the checked addresses, even if the name resolves differently now."""

    def __init__(self, receiver: WebhookHost, progress: _RequestProgress) -> None:
        self._receiver = receiver
        self._progress = progress
        self._backend = httpcore.AnyIOBackend()

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
                stream = await self._backend.connect_tcp(address, self._receiver.port, timeout=timeout)
                return _BoundedStream(stream, self._progress)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error or httpcore.ConnectError(msg("no address"))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
