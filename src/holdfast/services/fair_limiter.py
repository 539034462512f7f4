"""Bounds expensive work, in total and per key, and shares it fairly: one key cannot delay the others.

Most keys are users or groups. This limits concurrency; rates are limited elsewhere (`people/login_throttle.py`,
`server/openpai/rate_limits.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf


class LimitReached(Exception):
    """There is no slot. `by_key`: the key uses all of its slots; otherwise all slots are in use."""

    def __init__(self, by_key: bool) -> None:
        super().__init__()
        self.by_key = by_key


class FairLimiter:
    """`total` slots, of which one key uses at most `per_key` at a time.

    A free slot is granted round-robin over the keys that wait, and within a key round-robin over its clients. At most
    `max_waiting` requests of one key and client wait, each for at most `timeout` seconds. Any other request gets the
    error that `refuse` returns; its argument is that of LimitReached.

    A cancelled request releases its slot or leaves the queue. For use within one event loop.
    """

    def __init__(
        self,
        total: float = inf,
        *,
        per_key: float = 1,
        max_waiting: float = inf,
        timeout: float | None = None,
        refuse: Callable[[bool], Exception] = LimitReached,
    ) -> None:
        self._free_slots = total
        self._per_key = per_key
        self._max_waiting = max_waiting
        self._timeout = timeout
        self._build_error = refuse
        self._used_slots: Counter[str] = Counter()
        self._queues: OrderedDict[str, _KeyQueue] = OrderedDict()  # next key to be served first

    @asynccontextmanager
    async def use_slot(self, key: str, client: str = "") -> AsyncIterator[None]:
        """Wait for a slot and use it."""
        release = await self.acquire(key, client)
        try:
            yield
        finally:
            release()

    async def acquire(self, key: str, client: str = "") -> Callable[[], None]:
        """Wait for a slot. It is in use until the returned function is called; calling that again does nothing."""
        if self._has_free_slot(key):
            self._occupy_slot(key)
        else:
            await self._wait_for_slot(key, client)
        return make_idempotent(partial(self._release_slot, key))

    def acquire_nowait(self, key: str) -> Callable[[], None]:
        """Acquire a slot without waiting; raise the error of `refuse` if there is none."""
        if not self._has_free_slot(key):
            raise self._build_limit_error(key)
        self._occupy_slot(key)
        return make_idempotent(partial(self._release_slot, key))

    async def _wait_for_slot(self, key: str, client: str) -> None:
        granted = self._enqueue_request(key, client)
        try:
            async with asyncio.timeout(self._timeout):
                await granted
        except BaseException as error:
            self._cancel_request(key, client, granted)
            if isinstance(error, TimeoutError):
                raise self._build_limit_error(key) from None
            raise

    def _enqueue_request(self, key: str, client: str) -> asyncio.Future[None]:
        queue = self._queues.get(key) or _KeyQueue()
        if queue.count(client) >= self._max_waiting:
            raise self._build_limit_error(key)
        self._queues[key] = queue
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(client, granted)
        return granted

    def _build_limit_error(self, key: str) -> Exception:
        return self._build_error(self._used_slots[key] >= self._per_key)

    def _cancel_request(self, key: str, client: str, granted: asyncio.Future[None]) -> None:
        """Remove a cancelled request; pass a slot that it was just granted to the next one."""
        if granted.done() and not granted.cancelled():
            self._release_slot(key)
        elif key in self._queues:
            self._queues[key].remove(client, granted)
            self._remove_empty_queue(key)

    def _has_free_slot(self, key: str) -> bool:
        return self._free_slots > 0 and self._used_slots[key] < self._per_key

    def _occupy_slot(self, key: str) -> None:
        self._free_slots -= 1
        self._used_slots[key] += 1

    def _release_slot(self, key: str) -> None:
        self._free_slots += 1
        self._used_slots[key] -= 1
        if not self._used_slots[key]:
            del self._used_slots[key]
        self._grant_free_slots()

    def _grant_free_slots(self) -> None:
        for key in list(self._queues):
            if self._has_free_slot(key):
                granted = self._queues[key].pop_next()
                if granted is not None:
                    self._occupy_slot(key)
                    granted.set_result(None)
                    self._queues.move_to_end(key)
            self._remove_empty_queue(key)
            if not self._free_slots:
                return

    def _remove_empty_queue(self, key: str) -> None:
        if not self._queues.get(key, True):
            del self._queues[key]


class _KeyQueue:
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
        """Return the next request that is not cancelled, and move its client to the end."""
        while self._clients:
            client, requests = self._clients.popitem(last=False)
            granted = requests.popleft()
            if requests:
                self._clients[client] = requests
            if not granted.done():
                return granted
        return None


def make_idempotent(act: Callable[[], None]) -> Callable[[], None]:
    left = [act]
    return lambda: left.pop()() if left else None
