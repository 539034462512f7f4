"""A bounded number of slots for expensive work, granted round-robin over keys: one key cannot delay the others."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SlotsBusy(Exception):
    """Too many requests of this key are waiting already, or this one has waited for too long."""


class FairSlots:
    def __init__(
        self, slots: int, *, per_key: int = 1, max_waiting: int | None = None, timeout: float | None = None
    ) -> None:
        """`per_key`: slots that one key uses at a time. `max_waiting`: of one key. `timeout`: seconds of waiting."""
        self._free = slots
        self._per_key = per_key
        self._max_waiting = max_waiting
        self._timeout = timeout
        self._used: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # next key to be served first

    @asynccontextmanager
    async def slot(self, key: str, *, max_waiting: int | None = None) -> AsyncIterator[None]:
        """Wait for a slot and keep it. SlotsBusy when the queue of this key is full, or on timeout."""
        await self._acquire(key, self._max_waiting if max_waiting is None else max_waiting)
        try:
            yield
        finally:
            self._release(key)

    async def _acquire(self, key: str, max_waiting: int | None) -> None:
        if self._can_start(key):
            self._start(key)
            return
        queue = self._waiting.setdefault(key, deque())
        if max_waiting is not None and len(queue) >= max_waiting:
            raise SlotsBusy
        granted = asyncio.get_running_loop().create_future()
        queue.append(granted)
        try:
            async with asyncio.timeout(self._timeout):
                await granted
        except BaseException as error:
            self._withdraw(key, granted)
            if isinstance(error, TimeoutError):
                raise SlotsBusy from None
            raise

    def _withdraw(self, key: str, granted: asyncio.Future[None]) -> None:
        """The request left; a slot that it was granted in the same moment goes to the next one."""
        if granted.done() and not granted.cancelled():
            self._release(key)
            return
        queue = self._waiting.get(key)
        if queue is not None and granted in queue:
            queue.remove(granted)
            self._drop_if_empty(key)

    def _can_start(self, key: str) -> bool:
        return self._free > 0 and self._used[key] < self._per_key

    def _start(self, key: str) -> None:
        self._free -= 1
        self._used[key] += 1

    def _release(self, key: str) -> None:
        self._free += 1
        self._used[key] -= 1
        if not self._used[key]:
            del self._used[key]
        self._grant_next()

    def _grant_next(self) -> None:
        for key in list(self._waiting):
            queue = self._waiting[key]
            while queue and queue[0].done():  # its request was cancelled, and has not withdrawn yet
                queue.popleft()
            if queue and self._can_start(key):
                self._start(key)
                queue.popleft().set_result(None)
                self._waiting.move_to_end(key)
            self._drop_if_empty(key)
            if not self._free:
                return

    def _drop_if_empty(self, key: str) -> None:
        if not self._waiting.get(key, True):
            del self._waiting[key]
