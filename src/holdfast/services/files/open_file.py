"""A file opened for reading, while other processes may write to it."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import msg

from ..disk_work import DiskExecutor
from .file_tree import FileTree
from .folder_scan import get_modified_time

CHUNK_SIZE = 256 * 1024  # bytes read at one time


class FileTruncated(HoldfastError):
    """The file is now shorter than when it was opened."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    name: str  # the last part of its path
    size: int  # when it was opened; no more is read
    modified_at: datetime | None
    file: io.FileIO
    work: DiskExecutor

    async def iter_chunks(self, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield exactly the bytes from `start` to `end`, or raise an error. Closes the file."""
        at, end = start, self.size if end is None else end
        try:
            while at < end:
                piece = await self.work.run_short(partial(os.pread, self.file.fileno(), min(CHUNK_SIZE, end - at), at))
                if not piece:
                    raise FileTruncated(msg("{name} was truncated while it was being read", name=self.name))
                at += len(piece)
                yield piece
        finally:
            self.file.close()

    async def read(self) -> bytes:
        """Read the whole file; for small files."""
        return b"".join([piece async for piece in self.iter_chunks()])


async def open_file(tree: FileTree, parts: tuple[str, ...], work: DiskExecutor) -> OpenFile:
    """Open a regular file. NotFound if there is none."""
    return await work.run_short(lambda: _build_open_file(*tree.open_file(parts), parts[-1], work))


def _build_open_file(fd: int, status: os.stat_result, name: str, work: DiskExecutor) -> OpenFile:
    """Build the object in the thread, so that the file is closed if the request was cancelled."""
    return OpenFile(name, status.st_size, get_modified_time(status), io.FileIO(fd, "rb"), work)
