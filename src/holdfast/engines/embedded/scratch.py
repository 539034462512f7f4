"""How much a running task has written, looked at often enough and never so often that it is felt.

Looking is walking through every file, and a task may make millions: so the more it takes, the rarer it is done, and all
looks together take no more than a hundredth of a core.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from holdfast.engines.base import DiskUse

from .live import LiveTask

SHARE = 0.01  # of a core, for all tasks together
_DEEPEST = 200  # folders within folders; what lies deeper is not counted
_MOST_LINKED = 100_000  # files with several names that are remembered, so as to be counted once
_BLOCK = 512
_LOG_FILES = frozenset({"stdout", "stderr", "timeline"})  # in a task's folder; they have a limit of their own
_UNLIMITED = 1 << 62
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
        top = os.open(folder, _OPEN)
    except OSError:
        return DiskUse()
    walk = _Walk(os.fstat(top).st_dev)
    try:
        size = walk.total(
            top, most.bytes or _UNLIMITED, most.files or _UNLIMITED, deadline, frozenset() if logs else _LOG_FILES
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
    walk = _Walk(os.fstat(top).st_dev)
    try:
        return walk.total(top, enough)
    finally:
        walk.close()


def _open_home(folder: str, home: str) -> int:
    """The task may put a link anywhere on the way, at any time."""
    fd = os.open(folder, _OPEN)
    for part in home.split("/"):
        try:
            below = os.open(part, _OPEN, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


class _Walk:
    """Holds one open folder for each level it is down, and no names."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._levels: list[tuple[int, Iterator[os.DirEntry[str]]]] = []
        self._linked: set[int] = set()
        self.files = 0

    def close(self) -> None:
        while self._levels:
            self._leave()

    def total(
        self,
        top: int,
        enough: int,
        enough_files: int = _UNLIMITED,
        deadline: float = float("inf"),
        skipped: frozenset[str] = frozenset(),
    ) -> int:
        """`skipped`: names in the topmost folder that do not count."""
        held = 0
        self._go_into(top)
        while self._levels and held <= enough and self.files <= enough_files and time.monotonic() < deadline:
            folder, entries = self._levels[-1]
            try:
                entry = next(entries, None)
                status = entry.stat(follow_symlinks=False) if entry is not None else None
            except FileNotFoundError:
                continue
            except OSError:
                entry = status = None
            if entry is None or status is None:
                self._leave()
                continue
            if len(self._levels) == 1 and entry.name in skipped:
                continue
            held += self._size(status)
            self.files += 1
            if stat.S_ISDIR(status.st_mode):
                self._enter(folder, entry.name)
        return held

    def _size(self, status: os.stat_result) -> int:
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if status.st_ino in self._linked:
                return 0
            if len(self._linked) < _MOST_LINKED:
                self._linked.add(status.st_ino)
        return status.st_blocks * _BLOCK

    def _enter(self, folder: int, name: str) -> None:
        if len(self._levels) >= _DEEPEST:
            return
        try:
            fd = os.open(name, _OPEN, dir_fd=folder)
        except OSError:
            return
        if os.fstat(fd).st_dev == self._device:
            self._go_into(fd)
        else:
            os.close(fd)

    def _go_into(self, fd: int) -> None:
        try:
            self._levels.append((fd, os.scandir(fd)))
        except OSError:
            os.close(fd)

    def _leave(self) -> None:
        fd, entries = self._levels.pop()
        entries.close()  # type: ignore[attr-defined]
        os.close(fd)


def timed(folder: str, home: str, enough: int) -> tuple[int, float]:
    """What `held_in` says, and the seconds of this thread's work that it took."""
    began = time.thread_time()
    return held_in(folder, home, enough), time.thread_time() - began
