"""Adapter to httpx: options, uploads, replies and errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from .address import Address
from .calls import OpenStream, Reply, Request, Step, Upload
from .proof import READ_SIZE, ServerProof, needs_proof

CONNECT_TIMEOUT = 5.0  # seconds
UPLOAD_CHUNK_SIZE = 256 * 1024  # bytes per upload chunk

# Nothing was sent, so any call can be retried. Other errors may have reached the server.
_NOT_SENT_ERRORS = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


def build_client_options(address: Address, timeout: float) -> dict[str, Any]:
    return {
        "base_url": address.url,
        "headers": address.build_headers(),
        "timeout": httpx.Timeout(timeout, connect=CONNECT_TIMEOUT),
        "follow_redirects": False,  # a redirect must not carry the token elsewhere
        "trust_env": should_use_proxy(address.url),
        "verify": create_ssl_context(address.url),
    }


def should_use_proxy(url: str) -> bool:
    """Return whether proxies are used: only with HTTPS, since proof.py needs a direct connection."""
    return url.startswith("https:")


def create_ssl_context(url: str) -> ssl.SSLContext:
    """Return the SSL context; for plain HTTP an empty one, which avoids loading all certificates."""
    if url.startswith("https:"):
        return httpx.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def build_request_arguments(request: Request, pieces: Callable[[Upload], Any]) -> dict[str, Any]:
    """Return the arguments for httpx's build_request."""
    found: dict[str, Any] = {
        "method": request.method,
        "url": request.path.lstrip("/"),  # relative, to keep the path of the base URL
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


def to_reply(response: httpx.Response, body: bytes | None = None) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content if body is None else body)


def iter_upload_chunks(upload: Upload) -> Iterator[bytes]:
    with upload.path.open("rb") as file:
        while piece := file.read(UPLOAD_CHUNK_SIZE):
            yield _report_progress(upload, piece)


async def iter_upload_chunks_async(upload: Upload) -> AsyncIterator[bytes]:
    import asyncio  # slow to load, and not needed by synchronous code

    with upload.path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, UPLOAD_CHUNK_SIZE):
            yield _report_progress(upload, piece)


def _report_progress(upload: Upload, piece: bytes) -> bytes:
    if upload.on_progress is not None:
        upload.on_progress(len(piece))
    return piece


# Each new connection is proven before httpx sends anything on it: httpx calls `trace` with it.
_CONNECTED_EVENT = "connection.connect_tcp.complete"


def build_proof_extensions(address: Address, timeout: float | None) -> dict[str, Any]:
    """Return httpx request extensions that run the proof. `timeout`: seconds for each step."""

    def trace(event: str, info: dict[str, Any]) -> None:
        if event != _CONNECTED_EVENT:
            return
        stream, proof = info["return_value"], ServerProof(address)
        try:
            with _translate_proof_errors(address):
                stream.write(proof.request, timeout)
                while not proof.feed(stream.read(READ_SIZE, timeout)):
                    pass
        except BaseException:
            stream.close()
            raise

    return {"trace": trace} if needs_proof(address) else {}


def build_async_proof_extensions(address: Address, timeout: float | None) -> dict[str, Any]:
    """The asyncio version of `build_proof_extensions`."""

    async def trace(event: str, info: dict[str, Any]) -> None:
        if event != _CONNECTED_EVENT:
            return
        stream, proof = info["return_value"], ServerProof(address)
        try:
            with _translate_proof_errors(address):
                await stream.write(proof.request, timeout)
                while not proof.feed(await stream.read(READ_SIZE, timeout)):
                    pass
        except BaseException:
            await stream.aclose()
            raise

    return {"trace": trace} if needs_proof(address) else {}


@contextmanager
def _translate_proof_errors(address: Address) -> Iterator[None]:
    import httpcore  # loaded by httpx, once it connects

    try:
        yield
    except httpcore.TimeoutException:
        raise address.build_connection_error("no response in time") from None
    except httpcore.NetworkError as error:
        raise address.build_connection_error(str(error) or type(error).__name__) from None


@contextmanager
def translate_errors(address: Address, step: Step) -> Iterator[None]:
    """Translate httpx errors. Sends nothing if the server of the address is stopped."""
    if isinstance(step, Request | OpenStream):
        address.require_running_server()
    try:
        yield
    except httpx.TransportError as error:
        lost, silent = not isinstance(error, _NOT_SENT_ERRORS), isinstance(error, httpx.ReadTimeout)
        raise address.build_connection_error(_describe_error(error), lost=lost, silent=silent) from None


def _describe_error(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"no response within {CONNECT_TIMEOUT:g} s"
    if isinstance(error, httpx.TimeoutException):
        return "no response in time"
    text = str(error)
    if "Connection refused" in text or "All connection attempts failed" in text:
        return "connection refused"
    return text or type(error).__name__
