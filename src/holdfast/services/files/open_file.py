"""A file opened for reading, that others may write to meanwhile."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import msg

from ..disk_work import DiskWork
from .tree import Tree
from .walk import modified

CHUNK = 256 * 1024  # bytes read at one time


class Shortened(HoldfastError):
    """The file has lost bytes that were promised when it was opened."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    name: str  # the last part of its path
    size: int  # when it was opened: no more is read, whatever is added
    modified_at: datetime | None
    file: io.FileIO
    work: DiskWork

    async def chunks(self, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Exactly the bytes from `start` to `end`, or Shortened. Closes the file."""
        at, end = start, self.size if end is None else end
        try:
            while at < end:
                piece = await self.work.short(partial(os.pread, self.file.fileno(), min(CHUNK, end - at), at))
                if not piece:
                    raise Shortened(msg("{name} became shorter while it was read", name=self.name))
                at += len(piece)
                yield piece
        finally:
            self.file.close()

    async def read(self) -> bytes:
        """All of it; for small ones."""
        return b"".join([piece async for piece in self.chunks()])


async def open_file(tree: Tree, parts: tuple[str, ...], work: DiskWork) -> OpenFile:
    """NotFound when there is no plain file of that path."""
    return await work.short(lambda: _opened(*tree.file(parts), parts[-1], work))


def _opened(fd: int, status: os.stat_result, name: str, work: DiskWork) -> OpenFile:
    """Made in the thread: where nobody waits for it any more, it is closed as everything that nobody has."""
    return OpenFile(name, status.st_size, modified(status), io.FileIO(fd, "rb"), work)
