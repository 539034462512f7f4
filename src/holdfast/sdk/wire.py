"""Between our requests and httpx: options, uploads, replies, and the translation of its errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx

from holdfast import __version__

from .address import Address
from .errors import CannotConnect
from .exchange import Open, Reply, Request, Step, Upload

CONNECT_TIMEOUT = 5.0  # seconds
PIECE = 256 * 1024  # bytes of an upload sent at once

# Nothing was sent, so any call may be tried again. Everything else may have reached the server.
_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


def options(address: Address, timeout: float) -> dict[str, Any]:
    headers = {"User-Agent": f"holdfast/{__version__}"}
    if address.token:
        headers["Authorization"] = f"Bearer {address.token}"
    return {
        "base_url": address.url,
        "headers": headers,
        "timeout": httpx.Timeout(timeout, connect=CONNECT_TIMEOUT),
        "follow_redirects": False,  # a redirect must not carry the token elsewhere
        "trust_env": not is_loopback(address.url),  # what is meant for this machine goes through no proxy
        "verify": _trust(address.url),
    }


def _trust(url: str) -> ssl.SSLContext:
    """Plain HTTP never uses it: a context that trusts nobody then spares the loading of all certificates."""
    if url.startswith("https:"):
        return httpx.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def as_arguments(request: Request, pieces: Callable[[Upload], Any]) -> dict[str, Any]:
    """What httpx's build_request takes."""
    found: dict[str, Any] = {
        "method": request.method,
        "url": request.path.lstrip("/"),  # relative, so that an address with a path of its own keeps it
        "params": dict(request.params),
        "headers": dict(request.headers),
    }
    if isinstance(request.content, Upload):
        found["content"] = pieces(request.content)
        found["headers"]["Content-Length"] = str(request.content.size)
    elif request.content is not None:
        found["content"] = request.content
    if request.timeout is not None:
        found["timeout"] = httpx.Timeout(request.timeout, connect=CONNECT_TIMEOUT)
    return found


def as_reply(response: httpx.Response, body: bytes | None = None) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content if body is None else body)


def pieces_of(upload: Upload) -> Iterator[bytes]:
    with upload.path.open("rb") as file:
        while piece := file.read(PIECE):
            yield _told(upload, piece)


async def pieces_of_async(upload: Upload) -> AsyncIterator[bytes]:
    import asyncio  # not needed by those who do not await, and slow to load

    with upload.path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield _told(upload, piece)


def _told(upload: Upload, piece: bytes) -> bytes:
    if upload.progress is not None:
        upload.progress(len(piece))
    return piece


@contextmanager
def translated(address: Address, step: Step) -> Iterator[None]:
    """httpx's errors in our words. Nothing is sent to a port that its server has left."""
    url = address.url
    if isinstance(step, Request | Open) and not address.served:
        raise CannotConnect(url, "no server runs there", hint=_hint(address))
    try:
        yield
    except httpx.TransportError as error:
        lost, silent = not isinstance(error, _NOT_SENT), isinstance(error, httpx.ReadTimeout)
        raise CannotConnect(url, _reason(error), lost=lost, silent=silent, hint=_hint(address)) from None


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"no answer within {CONNECT_TIMEOUT:g} s"
    if isinstance(error, httpx.TimeoutException):
        return "it did not answer in time"
    text = str(error)
    if "Connection refused" in text or "All connection attempts failed" in text:
        return "nothing listens there"
    return text or type(error).__name__


_SOURCES = {
    "HOLDFAST_URL": "HOLDFAST_URL names this address. ",
    "saved login": "This address is that of the saved login. ",
    "server on this machine": "This is where your own server on this machine was last. ",
    "default": "No address was given, so the usual one was tried. ",
}


def _hint(address: Address) -> str:
    """Where the address came from; then what most can do, and last what only whoever runs the server can."""
    why = _SOURCES.get(address.source, "")
    login = "`holdfast login URL` chooses another server"
    if address.source == "HOLDFAST_URL":
        login += ", once HOLDFAST_URL is unset"
    if is_loopback(address.url):
        return f"{why}{login}; `holdfast up` starts one here."
    return f"{why}Check it and the network; {login}."
