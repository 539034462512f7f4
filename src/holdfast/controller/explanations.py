"""Full explanations of waiting jobs, computed outside the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.core.scheduling.blockers import WaitExplanation
from holdfast.engines.engine_set import EngineSet
from holdfast.services.control import UsualDurationLoader

from .engine_waits import explain_engine_wait
from .waits import SchedulingState

T = TypeVar("T")

_ExplanationKey = tuple[str, frozenset[str]]  # a job, and the visible groups

SLOW_COPY_SECONDS = 0.005  # seconds: a slower copy is reused
SNAPSHOT_LIFETIME = 1.0  # seconds
PAUSE_FACTOR = 3  # pause after work, as a factor: all requests use at most a quarter of a core


class WaitExplainer:
    """Computes one explanation at a time in a thread. Equal requests share one that has not started, so that each
    result is newer than its request; with very many jobs, up to a second older."""

    def __init__(self, standing: Callable[[], SchedulingState], engine: EngineSet) -> None:
        self._build_state = standing
        self._engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="why")
        self._lock = asyncio.Lock()
        self._free_at = 0.0  # loop time
        self._queued_tasks: dict[_ExplanationKey, asyncio.Task[WaitExplanation | None]] = {}  # not started yet
        self._tasks: set[asyncio.Task[WaitExplanation | None]] = set()
        self._cached_snapshot: tuple[SchedulingState, float] | None = (
            None  # with the loop time until which it is reused
        )

    async def explain_wait(
        self, job_id: str, sees: Callable[[str], bool], usual: UsualDurationLoader, timeout: float
    ) -> WaitExplanation | None:
        """Explain why a job waits; None if it does not. After `timeout` seconds, return its blockers only."""
        standing = self._build_state()
        if not standing.is_queued(job_id):
            return standing.explain_unqueued(job_id) or await explain_engine_wait(
                job_id, standing.live, self._engine, standing.find_job_info, sees, timeout
            )
        key = (job_id, frozenset(group for group in standing.get_active_groups() if sees(group)))
        task = self._queued_tasks.get(key)
        if task is None:
            task = self._queued_tasks[key] = asyncio.create_task(self._compute_explanation(key, usual))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(task)
        except TimeoutError:
            return self._build_state().summarize_wait(job_id)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _compute_explanation(self, key: _ExplanationKey, usual: UsualDurationLoader) -> WaitExplanation | None:
        job_id, seen = key
        async with self._lock:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._free_at - loop.time())
            del self._queued_tasks[key]
            standing = self._get_snapshot()
            known = await self._run_in_thread(lambda: standing.find_blocking_jobs(job_id))
            took = await usual(known)
            return await self._run_in_thread(lambda: standing.explain_wait(job_id, seen.__contains__, took))

    def _get_snapshot(self) -> SchedulingState:
        """Copy the state on the event loop, where it changes; an expensive copy is reused."""
        now = asyncio.get_running_loop().time()
        if self._cached_snapshot is not None and now < self._cached_snapshot[1]:
            return self._cached_snapshot[0]
        standing, spent = _measure_cpu_time(self._build_state().snapshot)
        self._cached_snapshot = (standing, now + SNAPSHOT_LIFETIME) if spent >= SLOW_COPY_SECONDS else None
        self._free_at = max(self._free_at, now) + PAUSE_FACTOR * spent
        return standing

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        found, spent = await loop.run_in_executor(self._thread, _measure_cpu_time, work)
        self._free_at = max(self._free_at, loop.time()) + PAUSE_FACTOR * spent
        return found


def _measure_cpu_time(work: Callable[[], T]) -> tuple[T, float]:
    """Run it and return the CPU seconds that it took."""
    began = time.thread_time()
    found = work()
    return found, time.thread_time() - began
