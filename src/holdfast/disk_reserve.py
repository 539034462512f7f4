"""Reserved space on the state folder's disk that no job can use: the server releases it when it could not save
otherwise.

A preallocated file reserves bytes, and empty files reserve inodes. They are released step by step: other programs may
use the freed space, and the last steps are for the next start. Blocking: call it from a thread.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from holdfast.core.job import MIB

RELEASE_STEP_COUNT = 8
START_STEP_COUNT = 2  # of those, only for a start
MIN_STEP_SIZE = MIB // 2  # bytes
RESERVED_FILE_COUNT = 64
_BLOCK_SIZE = 512  # unit of st_blocks
_MAX_CLOCK_CORRECTION = 5.0  # seconds by which a clock may be corrected
_MAX_FULL_AGE = 10 * 365 * 24 * 3600.0  # seconds; the file starts with the time 0
_ALIGNMENT = 4096  # bytes: a file uses whole blocks


class DiskReserve:
    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._bytes = folder / "bytes"
        self._full = folder / "full"  # modified when programs last could not write
        self.size = size // _ALIGNMENT * _ALIGNMENT  # bytes of the full reserve; 0: none
        self._step = max(MIN_STEP_SIZE, -(-self.size // RELEASE_STEP_COUNT // _ALIGNMENT) * _ALIGNMENT)

    def read_size(self) -> int:
        """Return its current size in bytes."""
        try:
            return min(self.size, self._bytes.stat().st_blocks * _BLOCK_SIZE)
        except OSError:
            return 0

    def count_missing_bytes(self) -> int:
        return self.size - self.read_size()

    def count_missing_files(self) -> int:
        return max(0, RESERVED_FILE_COUNT - len(self._list_files())) if self.size else 0

    def prepare_full_marker(self) -> None:
        """Create the file for `record_full`, while there is space."""
        with suppress(OSError):
            self._create_full_marker()

    def record_full(self) -> None:
        """Record, also for the next server, that programs cannot write now."""
        with suppress(OSError):
            self._create_full_marker()
            os.utime(self._full)

    def read_seconds_since_full(self) -> float | None:
        """Return None if it never was, or the clock was set back since."""
        try:
            seconds = time.time() - self._full.stat().st_mtime
        except OSError:
            return None
        return max(0.0, seconds) if -_MAX_CLOCK_CORRECTION < seconds < _MAX_FULL_AGE else None

    def fill_reserve(self) -> bool:
        """False if there is no space; then its size is unchanged. A larger reserve of an earlier server is reduced."""
        held = self.read_size()
        try:
            self._create_full_marker()
            fd = os.open(self._bytes, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(fd, min(os.fstat(fd).st_size, self.size))
                if self.size:
                    os.posix_fallocate(fd, 0, self.size)
            finally:
                os.close(fd)
            for number in range(RESERVED_FILE_COUNT if self.size else 0):
                os.close(os.open(self._folder / f"inode-{number:02}", os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:
            self._truncate(held)  # a part of the request may have been allocated
            return False
        return True

    def release_step(self, *, for_start: bool = False) -> int:
        """Release a step; return its bytes and files. 0: the rest is kept, or there is none."""
        kept = 0 if for_start else START_STEP_COUNT
        held, files = self.read_size(), self._list_files()
        goal = max(min(held, kept * self._step), held - self._step)
        surplus = files[
            : max(
                0,
                min(
                    RESERVED_FILE_COUNT // RELEASE_STEP_COUNT,
                    len(files) - kept * RESERVED_FILE_COUNT // RELEASE_STEP_COUNT,
                ),
            )
        ]
        for path in surplus:
            with suppress(OSError):
                path.unlink()
        if goal < held:
            self._truncate(goal)
        return max(0, held - self.read_size()) + len(surplus)

    def _create_full_marker(self) -> None:
        """Create the file whose time shows when the disk was full."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._full.exists():
            return
        draft = self._full.with_suffix(f".{os.getpid()}")
        draft.touch(0o600)
        os.utime(draft, (0, 0))
        draft.rename(self._full)

    def _truncate(self, size: int) -> None:
        with suppress(OSError):
            os.truncate(self._bytes, size)

    def _list_files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("inode-*"))
        except OSError:
            return []
