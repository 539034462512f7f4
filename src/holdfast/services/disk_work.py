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
            working = asyncio.ensure_future(asyncio.to_thread(work, stop))
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait([working])  # its turn is over when it has ended, not before
                raise
