"""Measures what running tasks have written, with limited overhead.

A measurement walks through every file, and a task may create millions: so the longer it takes, the less often it is
done, and all measurements together use at most one percent of a core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from holdfast.engines.base import TaskDiskUsage
from holdfast.tree_size import OPEN_FOLDER_FLAGS, UNLIMITED, TreeWalk

from ..descriptors import open_below
from .live_tasks import LiveTask

MAX_CPU_SHARE = 0.01  # of a core, for all tasks together
_LOG_FILES = frozenset({"stdout", "stderr", "timeline"})  # in a task's folder; they have their own limit


class MeasureSchedule:
    """When to measure each task. For the event loop; `clock` is monotonic."""

    def __init__(
        self, every: float, clock: Callable[[], float], is_limited: Callable[[LiveTask], bool] | None = None
    ) -> None:
        self._every = every
        self._clock = clock
        self._is_limited = is_limited or has_home_limit
        self._round_cpu_time = 0.0  # seconds to measure every limited task once

    def list_due_tasks(self, tasks: Iterable[LiveTask]) -> list[LiveTask]:
        now = self._clock()
        limited = [task for task in tasks if self._is_limited(task)]
        self._round_cpu_time = sum(task.measure_cpu_time for task in limited)
        for task in limited:
            if task.next_measure_at is None:
                task.next_measure_at = now + self._every
        return [task for task in limited if task.next_measure_at is not None and task.next_measure_at <= now]

    def record_measurement(self, task: LiveTask, took: float) -> None:
        self._round_cpu_time += took - task.measure_cpu_time
        task.measure_cpu_time = took
        task.next_measure_at = self._clock() + max(self._every, self._round_cpu_time / MAX_CPU_SHARE)


def has_home_limit(task: LiveTask) -> bool:
    return task.note is not None and bool(task.note.scratch and task.note.home)


def measure_task_files(
    folder: str, most: TaskDiskUsage, deadline: float = float("inf"), *, logs: bool = False
) -> TaskDiskUsage:
    """Count bytes and files in a task's folder, without its logs unless requested, until they exceed `most` (0: no
    limit). Stops at the deadline (monotonic). Blocking."""
    try:
        top = os.open(folder, OPEN_FOLDER_FLAGS)
    except OSError:
        return TaskDiskUsage()
    walk = TreeWalk(os.fstat(top).st_dev)
    try:
        size = walk.count_bytes(
            top, most.bytes or UNLIMITED, most.files or UNLIMITED, deadline, frozenset() if logs else _LOG_FILES
        )
        return TaskDiskUsage(size, walk.files)
    finally:
        walk.close()


def measure_home(folder: str, home: str, enough: int) -> int:
    """Count the bytes on disk of `home` in a task's folder until they exceed `enough`. Links and other filesystems are
    not entered; unreadable or vanished entries are not counted. Blocking."""
    try:
        # Without following links, which the task may put anywhere at any time.
        top = open_below(os.open(folder, OPEN_FOLDER_FLAGS), home.split("/"), OPEN_FOLDER_FLAGS)
    except OSError:
        return 0
    walk = TreeWalk(os.fstat(top).st_dev)
    try:
        return walk.count_bytes(top, enough)
    finally:
        walk.close()


def measure_home_with_cpu_time(folder: str, home: str, enough: int) -> tuple[int, float]:
    """Return the result of `measure_home`, and the seconds of CPU time it took."""
    began = time.thread_time()
    return measure_home(folder, home, enough), time.thread_time() - began
