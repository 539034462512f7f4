"""Room on the state folder's disk that no job can take: the server gives it up when it could not save otherwise.

A preallocated file holds the bytes, and empty files hold inodes. Blocking: call it from a thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RESERVED_FILES = 64
_BLOCK_SIZE = 512  # unit of st_blocks


class DiskReserve:
    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._bytes = folder / "bytes"
        self.size = size  # bytes it holds when it is whole; 0: there is none

    def held(self) -> int:
        """Bytes it holds now."""
        try:
            return min(self.size, self._bytes.stat().st_blocks * _BLOCK_SIZE)
        except OSError:
            return 0

    def missing(self) -> int:
        return self.size - self.held()

    def missing_files(self) -> int:
        if not self.size:
            return 0
        try:
            return max(0, RESERVED_FILES + 1 - len([*self._folder.iterdir()]))
        except OSError:
            return RESERVED_FILES + 1

    def take(self) -> bool:
        """Make it whole. False when there is no room; then it holds nothing. Files that were left by a server with
        a larger reserve are made smaller."""
        if not self.size:
            self.release()
            return True
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for number in range(RESERVED_FILES):
                os.close(os.open(self._folder / f"inode-{number:02}", os.O_WRONLY | os.O_CREAT, 0o600))
            fd = os.open(self._bytes, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(fd, min(os.fstat(fd).st_size, self.size))
                os.posix_fallocate(fd, 0, self.size)
            finally:
                os.close(fd)
        except OSError:
            self.release()
            return False
        return True

    def release(self) -> int:
        """Give all of it up; how many bytes that were. Removing files needs no room."""
        held = self.held()
        with suppress(OSError):
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)
        return held
