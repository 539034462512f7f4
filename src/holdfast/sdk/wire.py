"""Between our requests and httpx: options, uploads, replies, and the translation of its errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from holdfast import __version__

from .address import Address, hint_for
from .errors import CannotConnect
from .exchange import Open, Reply, Request, Step, Upload
from .proof import READ_SIZE, ServerProof, needs_proof

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
        "trust_env": uses_proxy(address.url),
        "verify": trusted(address.url),
    }


def uses_proxy(url: str) -> bool:
    """Only for HTTPS: through a proxy, a connection to the server itself cannot be proven (see proof.py)."""
    return url.startswith("https:")


def trusted(url: str) -> ssl.SSLContext:
    """Plain HTTP never uses it: a context that trusts nobody then spares the loading of all certificates."""
    if url.startswith("https:"):
        return httpx.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


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


# Each new connection is proven before httpx sends anything on it: httpx calls `trace` with it.
_CONNECTED = "connection.connect_tcp.complete"


def prove_connections(address: Address, timeout: float | None) -> dict[str, Any]:
    """Extensions of a request of httpx. `timeout`: seconds for each step of the proof."""

    def trace(event: str, info: dict[str, Any]) -> None:
        if event != _CONNECTED:
            return
        stream, proof = info["return_value"], ServerProof(address)
        try:
            with _proving(proof):
                stream.write(proof.request, timeout)
                while not proof.feed(stream.read(READ_SIZE, timeout)):
                    pass
        except BaseException:
            stream.close()
            raise

    return {"trace": trace} if needs_proof(address) else {}


def prove_connections_async(address: Address, timeout: float | None) -> dict[str, Any]:
    """The same, awaiting."""

    async def trace(event: str, info: dict[str, Any]) -> None:
        if event != _CONNECTED:
            return
        stream, proof = info["return_value"], ServerProof(address)
        try:
            with _proving(proof):
                await stream.write(proof.request, timeout)
                while not proof.feed(await stream.read(READ_SIZE, timeout)):
                    pass
        except BaseException:
            await stream.aclose()
            raise

    return {"trace": trace} if needs_proof(address) else {}


@contextmanager
def _proving(proof: ServerProof) -> Iterator[None]:
    import httpcore  # loaded by httpx, once it connects

    try:
        yield
    except httpcore.TimeoutException:
        raise proof.failure("it did not answer in time") from None
    except httpcore.NetworkError as error:
        raise proof.failure(str(error) or type(error).__name__) from None


@contextmanager
def translated(address: Address, step: Step) -> Iterator[None]:
    """httpx's errors in our words. Nothing is sent to a port that its server has left."""
    url = address.url
    if isinstance(step, Request | Open) and not address.served:
        raise CannotConnect(url, "no server runs there", hint=hint_for(address))
    try:
        yield
    except httpx.TransportError as error:
        lost, silent = not isinstance(error, _NOT_SENT), isinstance(error, httpx.ReadTimeout)
        raise CannotConnect(url, _reason(error), lost=lost, silent=silent, hint=hint_for(address)) from None


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"no answer within {CONNECT_TIMEOUT:g} s"
    if isinstance(error, httpx.TimeoutException):
        return "it did not answer in time"
    text = str(error)
    if "Connection refused" in text or "All connection attempts failed" in text:
        return "nothing listens there"
    return text or type(error).__name__
