"""Measures deleted files that a task's processes keep open or mapped. Blocking."""

from __future__ import annotations

import os
import random
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from holdfast.engines.base import TaskDiskUsage

MAX_PROCESSES = 5000
MAX_LINKS = 200_000  # descriptors and mappings of all processes together
_DELETED_SUFFIX = " (deleted)"  # suffix of the kernel for the path of a deleted file
_BLOCK_SIZE = 512  # unit of st_blocks


def measure_unlinked_files(pids: Sequence[int], folder: str, deadline: float) -> TaskDiskUsage:
    """Measure those of these processes on the disk of `folder`, each file once. If the deadline (monotonic) is too
    short for all, each call checks other processes."""
    try:
        disk = _TaskDisk(folder)
    except OSError:
        return TaskDiskUsage()
    found: dict[tuple[int, int], int] = {}
    for number, path in enumerate(_iter_file_links(random.sample(pids, min(len(pids), MAX_PROCESSES)))):
        if number >= MAX_LINKS or time.monotonic() >= deadline:
            break
        with suppress(OSError):
            if os.readlink(path).endswith(_DELETED_SUFFIX):  # only those are read: another filesystem may not respond
                status = os.stat(path)
                if status.st_nlink == 0 and disk.contains_file(path, status):
                    found[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_SIZE
    return TaskDiskUsage(sum(found.values()), len(found))


def _iter_file_links(pids: Sequence[int]) -> Iterator[str]:
    """Yield descriptors, and mappings for root, which alone can follow them."""
    for pid in pids:
        for place in ("fd", "map_files"):
            with suppress(OSError), os.scandir(f"/proc/{pid}/{place}") as entries:
                for entry in entries:
                    yield entry.path


class _TaskDisk:
    def __init__(self, folder: str) -> None:
        self._device = os.stat(folder).st_dev
        self._size = _read_filesystem_size(folder)

    def contains_file(self, path: str, status: os.stat_result) -> bool:
        """In an overlay a file's device number is virtual, but its filesystem has the size of the underlying disk."""
        if not stat.S_ISREG(status.st_mode):
            return False
        if status.st_dev == self._device:
            return True
        return os.major(status.st_dev) == 0 and _read_filesystem_size(path) == self._size


def _read_filesystem_size(path: str) -> tuple[int, int]:
    found = os.statvfs(path)
    return found.f_blocks, found.f_frsize
