"""Downloads of layers, which are unpacked while they arrive. A broken connection continues where it stopped."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx

from holdfast.core.messages import msg
from holdfast.engines.base import PullError

from .layer_pipes import LayerPipe
from .pull_errors import make_invalid_error, make_not_found_error, make_unreachable_error
from .registry import RepositoryClient
from .registry_http import REQUEST_ERRORS, translate_request_error
from .tars import BadArchive

_CHUNK_SIZE = 2 * 1024 * 1024  # bytes hashed and unpacked at once
_CHUNK_TIMEOUT = 240.0  # seconds for one chunk: a slower registry (9 KB/s) counts as unreachable
_MIN_KEPT_SIZE = 128 * 1024 * 1024  # bytes of a blob that is kept for a later pull until it is unpacked
_MIN_PROGRESS_SIZE = 1024 * 1024  # bytes after which a broken connection does not count
_MAX_FAILURES = 5  # broken connections in a row, without progress in between

RunInThread = Callable[..., Awaitable[Any]]
UnpackCall = Callable[[LayerPipe], Awaitable[None]]


class ReceivedBlob:
    """The size and hash of what has arrived. A large blob is also kept in a file, so that a later pull continues; a
    small one is downloaded again sooner than it is written twice. Blocking: call it from a thread."""

    def __init__(self, path: str, announced_size: int) -> None:
        self._path = path
        self._file: io.FileIO | None = None
        if announced_size >= _MIN_KEPT_SIZE:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = io.FileIO(os.open(path, flags, 0o600), "r+b")
        self._hash = hashlib.sha256()
        self.size = 0
        self.kept_size = os.fstat(self._file.fileno()).st_size if self._file is not None else 0  # of an earlier pull
        if self.kept_size > announced_size:
            self.clear()

    def read_kept_chunk(self) -> list[bytes]:
        """Return the next bytes of an earlier pull; none at their end."""
        data = self._file.read(_CHUNK_SIZE) if self._file is not None else b""
        self._hash.update(data)
        self.size += len(data)
        return [data] if data else []

    def append(self, chunk: list[bytes]) -> None:
        for piece in chunk:
            self._hash.update(piece)
            rest = memoryview(piece)
            while rest and self._file is not None:
                rest = rest[self._file.write(rest) :]
            self.size += len(piece)

    def clear(self) -> None:
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
        self._hash = hashlib.sha256()
        self.size = self.kept_size = 0

    def compute_digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        if self._file is not None:
            os.unlink(self._path)


class BlobDownload:
    """Downloads one blob. `on_bytes` is called with the number of bytes that arrived, negative if they were useless."""

    def __init__(
        self,
        client: RepositoryClient,
        name: str,
        registry: str,
        run_in_thread: RunInThread,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._client = client
        self._name = name
        self._registry = registry
        self._run_in_thread = run_in_thread
        self._on_bytes = on_bytes

    async def run(self, path: str, digest: str, size: int, unpack: UnpackCall) -> None:
        """Download the blob, and unpack it meanwhile. PullError if the registry sends something else. A large one is
        kept in the file `path` until it is unpacked."""
        blob: ReceivedBlob = await self._run_in_thread(ReceivedBlob, path, size)
        try:
            # A complete file is of a pull that ended before unpacking, maybe of another user: no request proves access.
            if blob.kept_size == size and not await self._client.has_blob(digest):
                raise make_not_found_error(self._name, self._registry)
            is_resumed = blob.kept_size > 0
            while not await self._transfer(blob, digest, size, unpack):
                self._on_bytes(-blob.size)
                await self._run_in_thread(blob.clear)
                # The earlier part may be damaged, or a mirror: the registry itself is asked once for all of it.
                if not self._client.drop_mirrors() and not is_resumed:
                    raise make_invalid_error(self._name, msg("A layer does not match its digest."))
                is_resumed = False
            await self._run_in_thread(blob.remove)
        except BadArchive:
            await self._run_in_thread(blob.remove)
            raise
        finally:
            await self._run_in_thread(blob.close)

    async def _transfer(self, blob: ReceivedBlob, digest: str, size: int, unpack: UnpackCall) -> bool:
        """Return whether the digest is right. Only then does the unpacking see the end, or its failure count."""
        pipe = LayerPipe()
        unpacking = asyncio.ensure_future(unpack(pipe))
        unpacking.add_done_callback(pipe.stop_reading)
        try:
            while chunk := await self._run_in_thread(blob.read_kept_chunk):
                self._on_bytes(len(chunk[0]))
                await pipe.write(chunk)
            await self._complete(blob, pipe, digest, size)
            if blob.compute_digest() != digest:
                return False
            pipe.end()
            await unpacking
            return True
        finally:
            pipe.abort()
            unpacking.cancel()
            await _wait_until_done(unpacking)

    async def _complete(self, blob: ReceivedBlob, pipe: LayerPipe, digest: str, size: int) -> None:
        failures = 0
        while blob.size < size:
            before = blob.size
            try:
                await self._receive(blob, pipe, digest, size)
                if blob.size == before:
                    raise httpx.ReadError("the body is empty")
            except TimeoutError as error:  # of a chunk: a new connection to a slow server is not tried
                if not self._client.drop_mirrors():
                    raise make_unreachable_error(self._registry, msg("it sends data too slowly")) from error
            except REQUEST_ERRORS as error:
                failures = 0 if blob.size - before >= _MIN_PROGRESS_SIZE else failures + 1
                if failures >= _MAX_FAILURES:
                    raise translate_request_error(self._registry, error) from error

    async def _receive(self, blob: ReceivedBlob, pipe: LayerPipe, digest: str, size: int) -> None:
        async with self._client.open_blob(digest, blob.size) as (response, skip):
            self._check_length(response, size - blob.size + skip)
            hashing: asyncio.Future[None] | None = None
            received = blob.size
            try:
                async for chunk in _iter_chunks(response, skip):
                    length = sum(map(len, chunk))
                    received += length
                    if received > size:
                        raise self._make_size_error()
                    if hashing is not None:
                        await hashing
                    hashing = asyncio.ensure_future(self._run_in_thread(blob.append, chunk))
                    self._on_bytes(length)
                    await pipe.write(chunk)
                if hashing is not None:
                    await hashing
            finally:
                if hashing is not None:
                    await _wait_until_done(hashing)

    def _check_length(self, response: httpx.Response, expected: int) -> None:
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) != expected:
            raise self._make_size_error()

    def _make_size_error(self) -> PullError:
        return make_invalid_error(self._name, msg("A layer does not have the size that the manifest announces."))


async def _iter_chunks(response: httpx.Response, skip: int) -> AsyncIterator[list[bytes]]:
    """Yield the body in large chunks, without its first `skip` bytes. What arrived before an error is yielded first,
    and so is not lost. The pieces of a chunk are not joined, which would copy them."""
    received = response.aiter_raw()
    is_open = True
    failure: BaseException | None = None
    while is_open:
        chunk: list[bytes] = []
        total = 0
        try:
            async with asyncio.timeout(_CHUNK_TIMEOUT):
                while total < _CHUNK_SIZE:
                    piece = await anext(received, None)
                    if piece is None:
                        is_open = False
                        break
                    total += len(piece)
                    useful = piece[skip:]
                    skip -= len(piece) - len(useful)
                    chunk.append(useful)
        except REQUEST_ERRORS as error:
            is_open, failure = False, error
        if total:
            yield chunk
    if failure is not None:
        raise failure


async def _wait_until_done(work: asyncio.Future[None]) -> None:
    """Wait for a thread's work even if this task is cancelled: it must end before its files are closed."""
    while not work.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([work])
    if not work.cancelled():
        work.exception()  # an error that is already known
