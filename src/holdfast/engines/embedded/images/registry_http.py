"""HTTP requests to registries: encryption, redirects, and limits on what a hostile server can send.

Plain HTTP and unverified certificates are only used for hosts that the settings name. Credentials stay with the host
that they are for: a redirect to another one, such as a blob store, is followed without them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from weakref import WeakValueDictionary

import httpcore
import httpx

from holdfast.core.messages import msg
from holdfast.engines.base import PullError

from .pull_errors import make_invalid_error, make_unreachable_error
from .registry_options import RegistryOptions

REQUEST_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, TimeoutError)
_CONNECT_TIMEOUT = 15.0  # seconds
_READ_TIMEOUT = 60.0  # seconds until the next bytes arrive
_RESPONSE_TIMEOUT = 60.0  # seconds until all headers of a response have arrived
_BODY_TIMEOUT = 60.0  # seconds for all of a small response
_MAX_REDIRECTS = 5
_MAX_CONNECTIONS = 256
_MAX_HOST_CONNECTIONS = 16  # to one host and port, so that a slow registry does not delay pulls from others
_READ_SIZE = 1024 * 1024  # bytes
_MAX_RETRY_AFTER = timedelta(hours=24)
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_MIN_EPOCH = 1_000_000_000  # seconds; a smaller reset time is a duration


class _CountedStream(httpx.AsyncByteStream):
    """The body of a response, which releases the connection's slot when it is closed."""

    def __init__(self, body: httpx.AsyncByteStream, slots: asyncio.Semaphore) -> None:
        self._body = body
        self._slots = slots

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            yield chunk

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            self._slots.release()


class RegistryHttp:
    """The connections of all pulls. It stores no cookies, which would carry one user's session to another."""

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._clients: dict[bool, httpx.AsyncClient] = {}
        self._schemes: dict[str, str] = {}
        self._lock = asyncio.Lock()
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by scheme, host and port

    async def send(
        self, method: str, host: str, path: str, headers: Mapping[str, str], authorization: str | None
    ) -> httpx.Response:
        """Return the open response of a registry. An insecure one may use either scheme; the first to work is kept."""
        known = self._schemes.get(host)
        schemes = (known,) if known else ("https", "http") if host in self._options.insecure else ("https",)
        for scheme in schemes[:-1]:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError, httpx.ReadError):
                response = await self.send_to(method, f"{scheme}://{host}{path}", headers, authorization)
                self._schemes[host] = scheme
                return response
        response = await self.send_to(method, f"{schemes[-1]}://{host}{path}", headers, authorization)
        self._schemes[host] = schemes[-1]
        return response

    async def send_to(
        self, method: str, address: str, headers: Mapping[str, str], authorization: str | None
    ) -> httpx.Response:
        """Follow redirects; `authorization` is only sent to the first scheme, host and port."""
        url = first = httpx.URL(address)
        for _ in range(_MAX_REDIRECTS + 1):
            self._check_url(url)
            client = await self._get_client(is_verified=not self._is_insecure(url))
            sent = (
                {**headers, "Authorization": authorization} if authorization and is_same_origin(url, first) else headers
            )
            response = await self._send_request(client, client.build_request(method, url, headers=sent))
            if response.status_code not in _REDIRECT_STATUSES:
                return response
            await response.aclose()
            url = url.join(response.headers.get("location", "")).copy_with(userinfo=b"", fragment=None)
        raise make_unreachable_error(first.host, msg("it redirects too often"), is_permanent=True)

    async def _send_request(self, client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        """Return the open response; its connection counts against the limit of the host until it is closed."""
        slots = self._get_slots(request.url)
        await slots.acquire()  # without a time limit: the downloads before it make progress, or fail
        try:
            async with asyncio.timeout(_RESPONSE_TIMEOUT):
                response = await client.send(request, stream=True)
        except BaseException:
            slots.release()
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _CountedStream(response.stream, slots)
        return response

    def _get_slots(self, url: httpx.URL) -> asyncio.Semaphore:
        key = f"{url.scheme}://{url.netloc.decode('ascii')}"
        slots = self._slots.get(key)
        if slots is None:
            slots = self._slots[key] = asyncio.Semaphore(_MAX_HOST_CONNECTIONS)
        return slots

    def _check_url(self, url: httpx.URL) -> None:
        if url.scheme != "https" and not (url.scheme == "http" and self._is_insecure(url)):
            reason = msg("it requires plain HTTP, which is not allowed for this host")
            raise make_unreachable_error(url.host, reason, is_permanent=True)

    def _is_insecure(self, url: httpx.URL) -> bool:
        port = url.port or (443 if url.scheme == "https" else 80)
        return bool({url.netloc.decode("ascii"), f"{url.host}:{port}"} & self._options.insecure)

    async def _get_client(self, *, is_verified: bool) -> httpx.AsyncClient:
        async with self._lock:
            if is_verified not in self._clients:
                context = await asyncio.to_thread(ssl.create_default_context)  # reads many files
                if not is_verified:
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                self._clients[is_verified] = _make_client(context)
            return self._clients[is_verified]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()


def _make_client(context: ssl.SSLContext) -> httpx.AsyncClient:
    # Its default of 64 KiB takes a third more processor time for a download. There is no setting for one client.
    httpcore.AsyncHTTP11Connection.READ_NUM_BYTES = _READ_SIZE
    return httpx.AsyncClient(
        verify=context,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        headers={"User-Agent": "holdfast", "Accept-Encoding": "identity"},  # digests are of the bytes as stored
        timeout=httpx.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT),
        limits=httpx.Limits(max_connections=_MAX_CONNECTIONS, keepalive_expiry=30.0),
    )


def is_same_origin(url: httpx.URL, other: httpx.URL) -> bool:
    return (url.scheme, url.host, url.port) == (other.scheme, other.host, other.port)


async def read_body(response: httpx.Response, max_size: int, name: str) -> bytes:
    """Read a small response, and close it. PullError if it is larger than `max_size` bytes."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > max_size:
                    raise make_invalid_error(name, msg("A response of the registry is too large."))
    finally:
        await response.aclose()
    return bytes(body)


def translate_request_error(registry: str, error: BaseException) -> PullError:
    """Return the error for a failed request, by its underlying cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return make_unreachable_error(registry, msg("the connection was refused"))
        if isinstance(cause, ssl.SSLCertVerificationError):
            return make_unreachable_error(registry, msg("its certificate is not valid"), is_permanent=True)
        if isinstance(cause, ssl.SSLError):
            return make_unreachable_error(registry, msg("TLS failed"))
        if isinstance(cause, socket.gaierror):
            return make_unreachable_error(registry, msg("its name cannot be resolved"))
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return make_unreachable_error(registry, msg("it redirects to an invalid address"), is_permanent=True)
    if isinstance(error, (httpx.TimeoutException, TimeoutError)):
        return make_unreachable_error(registry, msg("it does not respond"))
    return make_unreachable_error(registry, msg("the connection failed"))


def parse_retry_time(headers: httpx.Headers, now: datetime) -> datetime | None:
    """Return when the registry accepts requests again, by the first header that says so."""
    for name in ("retry-after", "x-ratelimit-reset", "ratelimit-reset", "x-retry-after"):
        wait = _parse_wait(headers.get(name, "").strip(), now)
        if wait is not None:
            return now + min(max(wait, timedelta()), _MAX_RETRY_AFTER)
    return None


def _parse_wait(text: str, now: datetime) -> timedelta | None:
    """Parse a duration in seconds, a time in seconds since the epoch, or a date."""
    with suppress(ValueError, OverflowError):
        if text.isascii() and text.isdecimal():
            seconds = int(text[:12])
            return timedelta(seconds=seconds - now.timestamp() if seconds >= _MIN_EPOCH else seconds)
        if text:
            until = parsedate_to_datetime(text)
            return (until if until.tzinfo else until.replace(tzinfo=UTC)) - now
    return None
