"""Room on the state folder's disk that no job can take: the server gives it up when it could not save otherwise.

A preallocated file holds the bytes, and empty files hold inodes. They are given up step by step: whoever else fills the
disk may take what becomes free, and the last steps are for the next start. Blocking: call it from a thread.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from holdfast.core.job import MIB

STEPS = 8
START_STEPS = 2  # of those, for a start alone
MIN_STEP_SIZE = MIB // 2  # bytes
RESERVED_FILES = 64
_BLOCK_SIZE = 512  # unit of st_blocks
_CLOCK_STEP = 5.0  # seconds that a clock may be corrected by
_NEVER = 10 * 365 * 24 * 3600.0  # seconds; the file begins with the time 0
_ALIGNMENT = 4096  # bytes: a file that ends inside a block holds all of the block


class DiskReserve:
    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._bytes = folder / "bytes"
        self._full = folder / "full"  # changed when programs could not write, last
        self.size = size // _ALIGNMENT * _ALIGNMENT  # bytes it holds when it is whole; 0: there is none
        self._step = max(MIN_STEP_SIZE, -(-self.size // STEPS // _ALIGNMENT) * _ALIGNMENT)

    def held(self) -> int:
        """Bytes it holds now."""
        try:
            return min(self.size, self._bytes.stat().st_blocks * _BLOCK_SIZE)
        except OSError:
            return 0

    def missing(self) -> int:
        return self.size - self.held()

    def missing_files(self) -> int:
        return max(0, RESERVED_FILES - len(self._files())) if self.size else 0

    def prepare(self) -> None:
        """Make what `note_full` needs, while there is room."""
        with suppress(OSError):
            self._make_note()

    def note_full(self) -> None:
        """Remember, also for the next server, that programs cannot write just now."""
        with suppress(OSError):
            self._make_note()
            os.utime(self._full)

    def seconds_since_full(self) -> float | None:
        """None: never, or the clock was set back since."""
        try:
            seconds = time.time() - self._full.stat().st_mtime
        except OSError:
            return None
        return max(0.0, seconds) if -_CLOCK_STEP < seconds < _NEVER else None

    def take(self) -> bool:
        """Make it whole. False when there is no room; then it holds what it held before. One that was left by a server
        with a larger reserve is made smaller."""
        held = self.held()
        try:
            self._make_note()
            fd = os.open(self._bytes, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(fd, min(os.fstat(fd).st_size, self.size))
                if self.size:
                    os.posix_fallocate(fd, 0, self.size)
            finally:
                os.close(fd)
            for number in range(RESERVED_FILES if self.size else 0):
                os.close(os.open(self._folder / f"inode-{number:02}", os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:
            self._cut(held)  # a part of what was asked for may have been got
            return False
        return True

    def release(self, *, for_start: bool = False) -> int:
        """Give up a step; how many bytes and files that were. 0: the rest is kept, or there is none."""
        kept = 0 if for_start else START_STEPS
        held, files = self.held(), self._files()
        goal = max(min(held, kept * self._step), held - self._step)
        surplus = files[: max(0, min(RESERVED_FILES // STEPS, len(files) - kept * RESERVED_FILES // STEPS))]
        for path in surplus:
            with suppress(OSError):
                path.unlink()
        if goal < held:
            self._cut(goal)
        return max(0, held - self.held()) + len(surplus)

    def _make_note(self) -> None:
        """Make the file whose time says when the disk was full."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._full.exists():
            return
        draft = self._full.with_suffix(f".{os.getpid()}")
        draft.touch(0o600)
        os.utime(draft, (0, 0))
        draft.rename(self._full)

    def _cut(self, size: int) -> None:
        with suppress(OSError):
            os.truncate(self._bytes, size)

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("inode-*"))
        except OSError:
            return []
