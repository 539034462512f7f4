"""A log in a real file, grown by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from holdfast.engines.base import WrittenRange


class FileSource:
    def __init__(self, path: Path, data: bytes = b"", *, first: int = 0, complete: bool = True) -> None:
        self.path = path
        self.path.write_bytes(data)
        self.kept_from = first
        self.done = complete
        self.reads: list[tuple[int, int]] = []  # every read: start, count
        self._changed = asyncio.Event()

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self._changed.set()

    def finish(self) -> None:
        self.done = True
        self._changed.set()

    async def get_size(self) -> int:
        return self.path.stat().st_size

    async def find_first_offset(self) -> int:
        return self.kept_from

    async def read(self, start: int, count: int) -> bytes:
        self.reads.append((start, count))
        if start < self.kept_from:
            return b""
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(count)

    async def wait_for_growth(self, size: int, timeout: float) -> bool:
        self._changed.clear()
        if await self.get_size() <= size and not self.done:
            try:
                await asyncio.wait_for(self._changed.wait(), timeout)
            except TimeoutError:
                return False
        return await self.get_size() > size

    async def is_complete(self) -> bool:
        return self.done

    async def find_offset(self, when: datetime) -> int:
        return self.kept_from

    async def list_write_times(self, start: int, end: int, most: int) -> Sequence[WrittenRange]:
        return []


class StuckSource(FileSource):
    """Reads from `stuck_at` on never come back, as from a file system that is gone."""

    stuck_at = 0

    async def read(self, start: int, count: int) -> bytes:
        if start >= self.stuck_at:
            await asyncio.Event().wait()
        return await super().read(start, count)
