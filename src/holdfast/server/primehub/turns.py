"""Who may ask for much, and when: one thing at a time each, and few at a time of all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

AT_A_TIME = 2


class Turns:
    def __init__(self) -> None:
        self._all = asyncio.Semaphore(AT_A_TIME)
        self._users: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # those who wait or have a turn

    @asynccontextmanager
    async def of(self, user: str) -> AsyncIterator[None]:
        """Whoever asks a hundred times at once waits behind themselves, not in front of others."""
        own = self._users.get(user)
        if own is None:
            own = self._users[user] = asyncio.Lock()
        async with own, self._all:
            yield
