"""Threads that are started before they are needed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError


def start_thread_pool(count: int, name: str) -> ThreadPoolExecutor:
    """Return a pool with all its threads running: once a task has used up the process limit of its user, no thread can
    be started any more, not even the one that would stop the task."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    together = Barrier(count)  # keeps each thread busy, so that every call starts a new one
    turns = []
    try:
        for _ in range(count):
            turns.append(pool.submit(together.wait))
    except RuntimeError:
        together.abort()  # continue with fewer
    with suppress(BrokenBarrierError):
        for turn in turns:
            turn.result()
    return pool
