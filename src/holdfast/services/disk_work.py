"""Disk work in threads of its own, a few at a time: a disk that does not answer holds up nothing but what lies on it,
and nobody works on for somebody who has left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.core.messages import msg
from holdfast.hang_guard import HangGuard, NotResponding

from .fair_limiter import FairLimiter
from .refusals import Unavailable

T = TypeVar("T")

MAX_LONG = 8
MAX_LONG_PER_GROUP = 2  # what a group put on disk may take for ever to go through
MAX_SHORT = 32
TIMEOUT = 60.0  # seconds for one short work, and for a slot
LAST_MOMENT = 5.0  # seconds that long work gets to notification that nobody waits any more


class DiskWork:
    def __init__(self, patience: float = TIMEOUT) -> None:
        self._reach = HangGuard("shared-files")
        self._patience = patience
        self._long = FairLimiter(MAX_LONG, per_key=MAX_LONG_PER_GROUP, timeout=patience, refuse=_silent)
        self._short = FairLimiter(MAX_SHORT, per_key=MAX_SHORT, timeout=patience, refuse=_silent)

    async def short(self, work: Callable[[], T]) -> T:
        """Work on one file. Whoever is cancelled does not wait for its end."""
        async with self._short.slot(""):
            try:
                return await self._reach.run(work, self._patience)
            except NotResponding:
                raise _silent() from None

    async def long(self, work: Callable[[threading.Event], T], group: str = "") -> T:
        """Work that may go through many files. It is to look at the event now and then, and to end when it is set.
        `group`: whose files they are."""
        stop = threading.Event()
        async with self._long.slot(group):
            working = self._reach.begin(lambda: work(stop))
            working.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may come too late
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait([working], timeout=LAST_MOMENT)
                raise
            except NotResponding:
                raise _silent() from None


def _silent(_by_key: bool = False) -> Unavailable:
    return Unavailable(
        msg("The disk of the shared files does not answer"),
        hint=msg("Try again later; if it stays so, ask an admin: its file server may be down."),
    )


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
