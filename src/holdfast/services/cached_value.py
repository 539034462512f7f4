"""A cached value that is read often and changed rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class CachedValue(Generic[T]):
    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._load_value = read
        self._value: T | None = None
        self._generation = 0

    async def get(self) -> T:
        if self._value is not None:
            return self._value
        generation = self._generation
        found = await self._load_value()
        if generation == self._generation:  # else it may have been read just before a change
            self._value = found
        return found

    def invalidate(self) -> None:
        self._value = None
        self._generation += 1

    async def invalidate_after(self, write: Awaitable[U]) -> U:
        """Also invalidates after a failed or cancelled write, which may still be saved. It does so when the write ends:
        earlier, a concurrent read could cache the old value."""
        writing = asyncio.ensure_future(write)
        writing.add_done_callback(lambda _: self.invalidate())
        return await asyncio.shield(writing)
