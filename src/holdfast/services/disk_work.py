"""Disk work in threads: few at a time, so that others find one too, and none goes on for somebody who has left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LONG_WORKS = 3


class DiskWork:
    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(LONG_WORKS)

    async def long(self, work: Callable[[threading.Event], T]) -> T:
        """Work that may go through many files. It is to look at the event now and then, and to end when it is set."""
        stop = threading.Event()
        async with self._turns:
            return await ended(lambda: work(stop), stop.set)


async def ended(work: Callable[[], T], on_cancel: Callable[[], None] = lambda: None) -> T:
    """What it returns. Waits for the thread also when cancelled: what it uses is not closed, and its turn not given to
    another, before it has ended."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        on_cancel()
        await asyncio.wait([working])
        working.exception()  # nobody wants to hear of it
        raise
