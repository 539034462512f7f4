"""How much a running task has written, looked at often enough and never so often that it is felt.

Looking is walking through every file, and a task may make millions: so the more it takes, the rarer it is done, and all
looks together take no more than a hundredth of a core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from holdfast.engines.base import DiskUse
from holdfast.tree_size import OPEN_FOLDER, UNLIMITED, TreeWalk

from .live_tasks import LiveTask

SHARE = 0.01  # of a core, for all tasks together
_LOG_FILES = frozenset({"stdout", "stderr", "timeline"})  # in a task's folder; they have a limit of their own


class Pace:
    """When each task is due. For the event loop; `clock` is any that does not jump."""

    def __init__(
        self, every: float, clock: Callable[[], float], is_limited: Callable[[LiveTask], bool] | None = None
    ) -> None:
        self._every = every
        self._clock = clock
        self._is_limited = is_limited or has_home_limit
        self._watched = 0

    def due(self, tasks: Iterable[LiveTask]) -> list[LiveTask]:
        now = self._clock()
        watched = [task for task in tasks if self._is_limited(task)]
        self._watched = len(watched)
        for task in watched:
            if task.scratch_at is None:
                task.scratch_at = now + self._every
        return [task for task in watched if task.scratch_at is not None and task.scratch_at <= now]

    def looked(self, task: LiveTask, took: float) -> None:
        task.scratch_at = self._clock() + max(self._every, took * self._watched / SHARE)


def has_home_limit(task: LiveTask) -> bool:
    return task.note is not None and bool(task.note.scratch and task.note.home)


def measure_task(folder: str, most: DiskUse, deadline: float = float("inf"), *, logs: bool = False) -> DiskUse:
    """Bytes and files in a task's folder, without its logs unless they are wanted, counted as by `held_in` until there
    are more than `most`; 0 there means no limit. Counting ends at the deadline (monotonic). Blocking."""
    try:
        top = os.open(folder, OPEN_FOLDER)
    except OSError:
        return DiskUse()
    walk = TreeWalk(os.fstat(top).st_dev)
    try:
        size = walk.total(
            top, most.bytes or UNLIMITED, most.files or UNLIMITED, deadline, frozenset() if logs else _LOG_FILES
        )
        return DiskUse(size, walk.files)
    finally:
        walk.close()


def held_in(folder: str, home: str, enough: int) -> int:
    """Bytes that `home` in a task's folder takes on its disk, counted until there are more than `enough`. No link is
    followed, no other filesystem entered; what cannot be read, or goes meanwhile, is not counted. Blocking."""
    try:
        top = _open_home(folder, home)
    except OSError:
        return 0
    walk = TreeWalk(os.fstat(top).st_dev)
    try:
        return walk.total(top, enough)
    finally:
        walk.close()


def _open_home(folder: str, home: str) -> int:
    """The task may put a link anywhere on the way, at any time."""
    fd = os.open(folder, OPEN_FOLDER)
    for part in home.split("/"):
        try:
            below = os.open(part, OPEN_FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def timed(folder: str, home: str, enough: int) -> tuple[int, float]:
    """What `held_in` says, and the seconds of this thread's work that it took."""
    began = time.thread_time()
    return held_in(folder, home, enough), time.thread_time() - began
