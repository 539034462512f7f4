"""A bounded number of slots for expensive work, granted round-robin over keys: one key cannot delay the others.

The requests of one key take turns too, by client."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SlotsBusy(Exception):
    """Too many requests of this key and client are waiting already, or this one has waited for too long."""


class FairSlots:
    def __init__(
        self, slots: int, *, per_key: int = 1, max_waiting: int | None = None, timeout: float | None = None
    ) -> None:
        """`per_key`: slots that one key uses at a time. `max_waiting`: of one key and client. `timeout`: seconds of
        waiting."""
        self._free = slots
        self._per_key = per_key
        self._max_waiting = max_waiting
        self._timeout = timeout
        self._used: Counter[str] = Counter()
        self._waiting: OrderedDict[str, _Queue] = OrderedDict()  # next key to be served first

    @asynccontextmanager
    async def slot(self, key: str, client: str = "") -> AsyncIterator[None]:
        """Wait for a slot and keep it. SlotsBusy when the queue of this key and client is full, or on timeout."""
        await self._acquire(key, client)
        try:
            yield
        finally:
            self._release(key)

    async def _acquire(self, key: str, client: str) -> None:
        if self._can_start(key):
            self._start(key)
            return
        granted = self._enqueue(key, client)
        try:
            async with asyncio.timeout(self._timeout):
                await granted
        except BaseException as error:
            self._withdraw(key, client, granted)
            if isinstance(error, TimeoutError):
                raise SlotsBusy from None
            raise

    def _enqueue(self, key: str, client: str) -> asyncio.Future[None]:
        queue = self._waiting.setdefault(key, _Queue())
        if self._max_waiting is not None and queue.count(client) >= self._max_waiting:
            self._drop_if_empty(key)
            raise SlotsBusy
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(client, granted)
        return granted

    def _withdraw(self, key: str, client: str, granted: asyncio.Future[None]) -> None:
        """The request left; a slot that it was granted in the same moment goes to the next one."""
        if granted.done() and not granted.cancelled():
            self._release(key)
        elif key in self._waiting:
            self._waiting[key].remove(client, granted)
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
            if self._can_start(key):
                granted = self._waiting[key].pop_next()
                if granted is not None:
                    self._start(key)
                    granted.set_result(None)
                    self._waiting.move_to_end(key)
            self._drop_if_empty(key)
            if not self._free:
                return

    def _drop_if_empty(self, key: str) -> None:
        if not self._waiting.get(key, True):
            del self._waiting[key]


class _Queue:
    """Waiting requests of one key, in turns by client."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # next client first

    def __bool__(self) -> bool:
        return bool(self._clients)

    def count(self, client: str) -> int:
        return len(self._clients.get(client, ()))

    def append(self, client: str, granted: asyncio.Future[None]) -> None:
        self._clients.setdefault(client, deque()).append(granted)

    def remove(self, client: str, granted: asyncio.Future[None]) -> None:
        requests = self._clients.get(client)
        if requests is not None and granted in requests:
            requests.remove(granted)
            if not requests:
                del self._clients[client]

    def pop_next(self) -> asyncio.Future[None] | None:
        """The next request that has not been cancelled; its client is the last to have a turn again."""
        while self._clients:
            client, requests = self._clients.popitem(last=False)
            granted = requests.popleft()
            if requests:
                self._clients[client] = requests
            if not granted.done():
                return granted
        return None
