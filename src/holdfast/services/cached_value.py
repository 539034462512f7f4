"""What is read often and changed seldom: read once, kept until something changes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Remembered(Generic[T]):
    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._known: T | None = None
        self._generation = 0

    async def get(self) -> T:
        if self._known is not None:
            return self._known
        generation = self._generation
        found = await self._read()
        if generation == self._generation:  # else it may have been read just before a change
            self._known = found
        return found

    def forget(self) -> None:
        self._known = None
        self._generation += 1

    async def changed_by(self, write: Awaitable[U]) -> U:
        """What a write gives back. Also one that failed is taken for a change: it may be written all the same.

        So may one whose caller is gone. It is forgotten when the write is over, and not before: else what is read in
        between would be kept.
        """
        writing = asyncio.ensure_future(write)
        writing.add_done_callback(lambda _: self.forget())
        return await asyncio.shield(writing)
