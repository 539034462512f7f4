"""What a task's processes hold on the disk without a name: files that were opened, or mapped, and removed. Blocking."""

from __future__ import annotations

import os
import random
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from holdfast.engines.base import DiskUse

MAX_PROCESSES = 5000
MAX_LINKS = 200_000  # descriptors and mappings of all processes together
_DELETED = " (deleted)"  # how the kernel ends the path of a removed file
_BLOCK_SIZE = 512  # unit of st_blocks


def measure_unlinked(pids: Sequence[int], folder: str, deadline: float) -> DiskUse:
    """Of these processes, on the disk of `folder`; each file once. There may be more than there is time for until the
    deadline (monotonic): then other processes are looked at each time."""
    try:
        disk = _Disk(folder)
    except OSError:
        return DiskUse()
    found: dict[tuple[int, int], int] = {}
    for number, path in enumerate(_links(random.sample(pids, min(len(pids), MAX_PROCESSES)))):
        if number >= MAX_LINKS or time.monotonic() >= deadline:
            break
        with suppress(OSError):
            if os.readlink(path).endswith(_DELETED):  # only those are looked at: another filesystem may not answer
                status = os.stat(path)
                if status.st_nlink == 0 and disk.holds(path, status):
                    found[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_SIZE
    return DiskUse(sum(found.values()), len(found))


def _links(pids: Sequence[int]) -> Iterator[str]:
    """Mappings are for root only, who can follow them."""
    for pid in pids:
        for place in ("fd", "map_files"):
            with suppress(OSError), os.scandir(f"/proc/{pid}/{place}") as entries:
                for entry in entries:
                    yield entry.path


class _Disk:
    def __init__(self, folder: str) -> None:
        self._device = os.stat(folder).st_dev
        self._size = _size(folder)

    def holds(self, path: str, status: os.stat_result) -> bool:
        """A file of an overlay has a device number that leads nowhere; its filesystem has the size of the disk below,
        where the file is."""
        if not stat.S_ISREG(status.st_mode):
            return False
        if status.st_dev == self._device:
            return True
        return os.major(status.st_dev) == 0 and _size(path) == self._size


def _size(path: str) -> tuple[int, int]:
    found = os.statvfs(path)
    return found.f_blocks, found.f_frsize
