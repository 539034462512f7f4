"""Disk work in a limited number of dedicated threads: a hanging disk affects only its own files, and work of cancelled
requests is stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.core.messages import msg
from holdfast.hang_guard import HangGuard, NotResponding

from .errors import Unavailable
from .fair_limiter import FairLimiter

T = TypeVar("T")

MAX_LONG_TASKS = 8
MAX_LONG_TASKS_PER_GROUP = 2  # a group's files can take very long to list
MAX_SHORT_TASKS = 32
SHORT_TASK_TIMEOUT = 60.0  # seconds for short work, and for a slot
STOP_TIMEOUT = 5.0  # seconds for cancelled work to stop


class DiskExecutor:
    def __init__(self, timeout: float = SHORT_TASK_TIMEOUT) -> None:
        self._hang_guard = HangGuard("shared-files")
        self._timeout = timeout
        self._long_limiter = FairLimiter(
            MAX_LONG_TASKS, per_key=MAX_LONG_TASKS_PER_GROUP, timeout=timeout, refuse=_build_not_responding_error
        )
        self._short_limiter = FairLimiter(
            MAX_SHORT_TASKS, per_key=MAX_SHORT_TASKS, timeout=timeout, refuse=_build_not_responding_error
        )

    async def run_short(self, work: Callable[[], T]) -> T:
        """Run work on one file. A cancelled request does not wait for its end."""
        async with self._short_limiter.use_slot(""):
            try:
                return await self._hang_guard.run_with_timeout(work, self._timeout)
            except NotResponding:
                raise _build_not_responding_error() from None

    async def run_long(self, work: Callable[[threading.Event], T], group: str = "") -> T:
        """Run work on many files. It must check the event regularly, and stop if set. `group`: owner of the files."""
        stop = threading.Event()
        async with self._long_limiter.use_slot(group):
            working = self._hang_guard.start_call(lambda: work(stop))
            working.add_done_callback(lambda done: done.cancelled() or done.exception())  # the caller may be cancelled
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait([working], timeout=STOP_TIMEOUT)
                raise
            except NotResponding:
                raise _build_not_responding_error() from None


def _build_not_responding_error(_by_key: bool = False) -> Unavailable:
    return Unavailable(
        msg("The disk for shared files is not responding"),
        hint=msg("Try again later. If the problem persists, ask an admin to check the file server."),
    )


async def run_to_end(work: Callable[[], T], on_cancel: Callable[[], None] = lambda: None) -> T:
    """Run work in a thread, and wait for its end even if cancelled: it uses its resources until then."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        on_cancel()
        await asyncio.wait([working])
        working.exception()  # avoids a log line
        raise
