"""The free space of a disk, and the thresholds below which it counts as low or full."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.job import GIB, MIB

# A threshold is the smaller of a fixed size and a share of the disk, so that small disks stay usable.
MAX_FULL_PERCENT = 5
MAX_LOW_PERCENT = 10
MAX_RESERVE_PERCENT = 5
MAX_FULL_FILES = 2000  # inodes
MAX_FULL_FILES_PERCENT = 2
LOW_FILES_FACTOR = 4
CRITICAL_DIVISOR = 8  # below this part of the full threshold the disk is unusable
DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The space of one filesystem. `total_files` is 0 if the number of files is unlimited."""

    free: int  # bytes available to an ordinary user
    total: int
    free_files: int = 0
    total_files: int = 0


def read_disk_space(where: str | Path | int) -> DiskSpace:
    """Read it for the filesystem of a path or an open file. Blocking: its file server may not respond."""
    found = os.statvfs(where)
    return DiskSpace(
        free=found.f_bavail * found.f_frsize,
        total=found.f_blocks * found.f_frsize,
        free_files=found.f_favail,
        total_files=found.f_files,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskThresholds:
    """The admin's thresholds; a small disk has smaller ones."""

    full_bytes: int = GIB
    low_bytes: int = 4 * GIB
    reserve_bytes: int = 64 * MIB

    def compute_full_threshold_bytes(self, space: DiskSpace) -> int:
        """Return the free bytes below which nothing more is written for jobs."""
        return min(self.full_bytes, space.total * MAX_FULL_PERCENT // 100)

    def compute_low_threshold_bytes(self, space: DiskSpace) -> int:
        """Return the free bytes below which admins are warned, and uploads, images and artifacts are refused."""
        return max(self.compute_full_threshold_bytes(space), min(self.low_bytes, space.total * MAX_LOW_PERCENT // 100))

    def compute_reserve_bytes(self, space: DiskSpace) -> int:
        return min(self.reserve_bytes, space.total * MAX_RESERVE_PERCENT // 100)

    def compute_critical_threshold_bytes(self, space: DiskSpace) -> int:
        """Return the free bytes below which even the server's own writes are about to fail."""
        return self.compute_full_threshold_bytes(space) // CRITICAL_DIVISOR

    def compute_full_threshold_files(self, space: DiskSpace) -> int:
        return min(MAX_FULL_FILES, space.total_files * MAX_FULL_FILES_PERCENT // 100)

    def compute_low_threshold_files(self, space: DiskSpace) -> int:
        return self.compute_full_threshold_files(space) * LOW_FILES_FACTOR

    def compute_critical_threshold_files(self, space: DiskSpace) -> int:
        return self.compute_full_threshold_files(space) // CRITICAL_DIVISOR


def is_disk_full_error(error: OSError) -> bool:
    return error.errno in DISK_FULL_ERRORS


def require_space(where: str | Path | int, size: int, marks: DiskThresholds) -> None:
    """Raise OSError ENOSPC unless `size` more bytes leave the disk above its low threshold: permanent files of users
    must not fill it. Blocking."""
    space = read_disk_space(where)
    files_left = space.total_files == 0 or space.free_files > marks.compute_low_threshold_files(space)
    if space.free - size < marks.compute_low_threshold_bytes(space) or not files_left:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
