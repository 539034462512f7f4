"""Full explanations of waiting jobs, worked out beside the event loop: others must not wait for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.core.scheduling.blockers import Wait
from holdfast.services.control import Usual

from .waits import Standing

T = TypeVar("T")

_Key = tuple[str, frozenset[str]]  # a job, and the groups whose jobs are named

LONG = 0.005  # seconds: a copy that took as long is used again
GOOD_FOR = 1.0  # seconds
RESTS = 3  # times as long as the work took: all that ask have at most a quarter of a core together


class Explanations:
    """One at a time, in a thread. Those who ask the same while it has not begun share it, so that each answer is of
    the time after it was asked for; where very much runs and waits, of up to a second before."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="why")
        self._turn = asyncio.Lock()
        self._free_at = 0.0  # loop time
        self._next: dict[_Key, asyncio.Task[Wait | None]] = {}  # those that have not begun
        self._tasks: set[asyncio.Task[Wait | None]] = set()
        self._copy: tuple[Standing, float] | None = None  # with the loop time up to which it is good enough

    async def of(self, job_id: str, sees: Callable[[str], bool], usual: Usual, patience: float) -> Wait | None:
        """None when it does not wait. After so many seconds, its blockers alone."""
        standing = self._standing()
        if not standing.queues(job_id):
            return standing.next_try(job_id)
        key = (job_id, frozenset(group for group in standing.groups() if sees(group)))
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._work(key, usual))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(task)
        except TimeoutError:
            return self._standing().in_short(job_id)

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
            standing = self._still()
            known = await self._in_thread(lambda: standing.in_the_way(job_id))
            took = await usual(known)
            return await self._in_thread(lambda: standing.wait(job_id, seen.__contains__, took))

    def _still(self) -> Standing:
        """Copied on the loop, for what is copied changes there; what took long is used for several answers."""
        now = asyncio.get_running_loop().time()
        if self._copy is not None and now < self._copy[1]:
            return self._copy[0]
        standing, spent = _timed(self._standing().still)
        self._copy = (standing, now + GOOD_FOR) if spent >= LONG else None
        self._free_at = max(self._free_at, now) + RESTS * spent
        return standing

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
