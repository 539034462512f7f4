"""Pass the bytes of a layer from its download to the thread that unpacks it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from queue import SimpleQueue
from typing import Any

from .layer_streams import PullCancelled
from .tars import BadArchive, NoDiskSpace

_MAX_CHUNKS = 3  # written and not yet read


class LayerPipe:
    """A coroutine writes chunks, a thread reads them. Each chunk is a list of pieces."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._space = asyncio.Semaphore(_MAX_CHUNKS)
        self._chunks: SimpleQueue[list[bytes] | None] = SimpleQueue()  # None: aborted
        self._is_read = True
        self._failure: BaseException | None = None

    async def write(self, chunk: list[bytes]) -> None:
        """Wait for space, and pass the chunk on. It is dropped after the reader has refused the layer: whether the
        layer is damaged is only known at its end. Any other failure of the reader is raised."""
        await self._space.acquire()
        if self._failure is not None:
            raise self._failure
        if self._is_read:
            self._chunks.put(chunk)
        else:
            self._space.release()

    def end(self) -> None:
        """Say that the layer is complete and has the right digest."""
        self._chunks.put([])

    def abort(self) -> None:
        """Make the reader fail, unless it has seen the end."""
        self._chunks.put(None)

    def stop_reading(self, reader: asyncio.Future[Any]) -> None:
        """Record that the reader has ended."""
        error = None if reader.cancelled() else reader.exception()
        if isinstance(error, NoDiskSpace) or not isinstance(error, BadArchive):
            self._failure = error
        self._is_read = False
        self._space.release()

    def receive_chunk(self) -> list[bytes]:
        """Return the next chunk; empty at the end. Blocking: call it from a thread."""
        chunk = self._chunks.get()
        if chunk is None:
            raise PullCancelled
        self._loop.call_soon_threadsafe(self._space.release)
        return chunk


class PipeReader:
    """The reader's side as a file. Holds one of `slots`, except while it waits: a slow download must not take it."""

    def __init__(self, pipe: LayerPipe, slots: threading.Semaphore) -> None:
        self._pipe = pipe
        self._slots = slots
        self._pieces: deque[bytes] = deque()
        self._is_at_end = False

    def read(self, _size: int) -> bytes:
        """Return some bytes, as they arrived; none at the end."""
        while not self._pieces and not self._is_at_end:
            self._slots.release()
            try:
                chunk = self._pipe.receive_chunk()
            finally:
                self._slots.acquire()
            self._pieces.extend(filter(None, chunk))
            self._is_at_end = not chunk
        return self._pieces.popleft() if self._pieces else b""
