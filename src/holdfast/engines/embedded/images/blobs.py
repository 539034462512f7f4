"""Downloads of layers to files. A download that was interrupted continues where it stopped."""

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

from .pull_errors import make_invalid_error, make_not_found_error, make_unreachable_error
from .registry import RepositoryClient
from .registry_http import REQUEST_ERRORS, translate_request_error

_CHUNK_SIZE = 1024 * 1024  # bytes hashed and written at once
_CHUNK_TIMEOUT = 120.0  # seconds for one chunk: a slower registry (9 KB/s) counts as unreachable
_MIN_PROGRESS_SIZE = 1024 * 1024  # bytes after which a broken connection does not count
_MAX_FAILURES = 5  # broken connections in a row, without progress in between

RunInThread = Callable[..., Awaitable[Any]]


class PartialFile:
    """The bytes received so far, and their hash. Blocking: call it from a thread."""

    def __init__(self, path: str, max_size: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = io.FileIO(os.open(path, flags, 0o600), "r+b")
        self._path = path
        self._hash = hashlib.sha256()
        self.size = 0
        if os.fstat(self._file.fileno()).st_size > max_size:
            self.clear()
        while chunk := self._file.read(_CHUNK_SIZE):
            self._hash.update(chunk)
            self.size += len(chunk)

    def append(self, data: bytes) -> None:
        self._hash.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.size += len(data)

    def clear(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.sha256()
        self.size = 0

    def compute_digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def close(self) -> None:
        self._file.close()


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

    async def run(self, path: str, digest: str, size: int) -> None:
        """Complete the file at `path`; PullError if the registry sends something else."""
        file: PartialFile = await self._run_in_thread(PartialFile, path, size)
        try:
            self._on_bytes(file.size)
            is_resumed = file.size > 0
            # A complete file is of a pull that ended before unpacking, maybe of another user: no request proves access.
            if file.size == size and not await self._client.has_blob(digest):
                raise make_not_found_error(self._name, self._registry)
            while True:
                await self._complete(file, digest, size)
                if file.compute_digest() == digest:
                    return
                self._on_bytes(-file.size)
                await self._run_in_thread(file.clear)
                # The earlier part may be damaged, or a mirror: the registry itself is asked once for all of it.
                if not self._client.drop_mirrors() and not is_resumed:
                    raise make_invalid_error(self._name, msg("A layer does not match its digest."))
                is_resumed = False
        finally:
            await self._run_in_thread(file.close)

    async def _complete(self, file: PartialFile, digest: str, size: int) -> None:
        failures = 0
        while file.size < size:
            before = file.size
            try:
                await self._receive(file, digest, size)
                if file.size == before:
                    raise httpx.ReadError("the body is empty")
            except TimeoutError as error:  # of a chunk: a new connection to a slow server is not tried
                if not self._client.drop_mirrors():
                    raise make_unreachable_error(self._registry, msg("it sends data too slowly")) from error
            except REQUEST_ERRORS as error:
                failures = 0 if file.size - before >= _MIN_PROGRESS_SIZE else failures + 1
                if failures >= _MAX_FAILURES:
                    raise translate_request_error(self._registry, error) from error

    async def _receive(self, file: PartialFile, digest: str, size: int) -> None:
        async with self._client.open_blob(digest, file.size) as (response, skip):
            self._check_length(response, size - file.size + skip)
            writing: asyncio.Future[None] | None = None
            received = file.size
            try:
                async for chunk in _iter_chunks(response):
                    useful = chunk[skip:]
                    skip -= len(chunk) - len(useful)
                    received += len(useful)
                    if received > size:
                        raise self._make_size_error()
                    if writing is not None:
                        await writing
                    writing = asyncio.ensure_future(self._run_in_thread(file.append, useful))
                    self._on_bytes(len(useful))
                if writing is not None:
                    await writing
            finally:
                if writing is not None:
                    await _wait_until_done(writing)

    def _check_length(self, response: httpx.Response, expected: int) -> None:
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) != expected:
            raise self._make_size_error()

    def _make_size_error(self) -> PullError:
        return make_invalid_error(self._name, msg("A layer does not have the size that the manifest announces."))


async def _iter_chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body in large chunks. What arrived before an error is yielded first, and so is not lost."""
    pieces: list[bytes] = []
    received = response.aiter_raw()
    is_open = True
    failure: BaseException | None = None
    while is_open:
        total = 0
        try:
            async with asyncio.timeout(_CHUNK_TIMEOUT):
                while total < _CHUNK_SIZE:
                    piece = await anext(received, None)
                    if piece is None:
                        is_open = False
                        break
                    pieces.append(piece)
                    total += len(piece)
        except REQUEST_ERRORS as error:
            is_open, failure = False, error
        if total:
            yield b"".join(pieces)
            pieces.clear()
    if failure is not None:
        raise failure


async def _wait_until_done(writing: asyncio.Future[None]) -> None:
    """Wait for a write even if this task is cancelled: the file must not be closed before."""
    while not writing.done():
        with suppress(asyncio.CancelledError, OSError):
            await asyncio.shield(writing)
    if not writing.cancelled():
        writing.exception()  # an error that is already known
