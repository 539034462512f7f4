"""Full explanations of waiting jobs, worked out beside the event loop: others must not wait for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.core.blockers import Wait
from holdfast.services.control import Usual

from .waits import Standing

T = TypeVar("T")

_Key = tuple[str, frozenset[str]]  # a job, and the groups whose jobs are named

RESTS = 3  # times as long as the work took: all that ask have at most a quarter of a core together


class Explanations:
    """One at a time, in a thread. Those who ask the same while it has not begun share it, so that each answer is of
    the time after it was asked for."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="why")
        self._turn = asyncio.Lock()
        self._free_at = 0.0  # loop time
        self._next: dict[_Key, asyncio.Task[Wait | None]] = {}  # those that have not begun
        self._tasks: set[asyncio.Task[Wait | None]] = set()

    async def of(self, job_id: str, sees: Callable[[str], bool], usual: Usual) -> Wait | None:
        """None when it does not wait."""
        standing = self._standing()
        if not standing.queues(job_id):
            return standing.next_try(job_id)
        key = (job_id, frozenset(group for group in standing.groups() if sees(group)))
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._work(key, usual))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self, key: _Key, usual: Usual) -> Wait | None:
        job_id, seen = key
        async with self._turn:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._free_at - loop.time())
            del self._next[key]
            standing = self._standing().still()
            known = await self._in_thread(lambda: standing.in_the_way(job_id))
            took = await usual(known)
            return await self._in_thread(lambda: standing.wait(job_id, seen.__contains__, took))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        found, spent = await loop.run_in_executor(self._thread, _timed, work)
        self._free_at = max(self._free_at, loop.time()) + RESTS * spent
        return found


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """With the seconds of processor time that it took."""
    began = time.thread_time()
    found = work()
    return found, time.thread_time() - began
