"""Threads that are there before they are needed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError


def ready_threads(count: int, name: str) -> ThreadPoolExecutor:
    """A pool with all its threads running: once a task has taken every process its user may have, no thread can be
    made any more, not even the one that would end the task."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    together = Barrier(count)  # keeps each from taking a second turn, so that every turn makes a thread
    turns = []
    try:
        for _ in range(count):
            turns.append(pool.submit(together.wait))
    except RuntimeError:
        together.abort()  # fewer will have to do
    with suppress(BrokenBarrierError):
        for turn in turns:
            turn.result()
    return pool
