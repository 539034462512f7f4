"""Measures a folder without following links or entering other filesystems. Blocking."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

UNLIMITED = 1 << 62
OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAX_OPEN_LEVELS = 200  # nested folders that are open at the same time
_MAX_PENDING_FOLDERS = 200_000  # names of folders remembered for later
_MAX_LINKED_FILES = 100_000  # files with several names, remembered to be counted once
_BLOCK_SIZE = 512  # bytes


def measure_tree(folder: Path | str, deadline: float) -> int:
    """In bytes on disk, until the deadline (monotonic). Unreadable or vanished entries are not counted."""
    try:
        top = os.open(folder, OPEN_FOLDER_FLAGS)
    except OSError:
        return 0
    walk = TreeWalk(os.fstat(top).st_dev)
    try:
        return walk.count_bytes(top, UNLIMITED, deadline=deadline)
    finally:
        walk.close()


@dataclass(slots=True)
class _FolderLevel:
    """A folder on the current path. Once `entries` is None, all but the folders in `pending` is counted."""

    fd: int | None  # None: closed, to be reopened from below
    inode: int
    entries: Iterator[os.DirEntry[str]] | None
    pending: list[str] = field(default_factory=list)

    def close_entries(self) -> None:
        if self.entries is not None:
            self.entries.close()  # type: ignore[attr-defined]
            self.entries = None

    def close(self) -> None:
        self.close_entries()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class TreeWalk:
    """Counts the content of a folder of any depth. Keeps the deepest levels open; the levels above them are counted,
    except for their subfolders, and closed."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._levels: list[_FolderLevel] = []
        self._closed = 0  # levels, from the top
        self._pending = 0  # names
        self._linked: set[int] = set()
        self._skipped: frozenset[str] = frozenset()
        self._counted_bytes = 0
        self.files = 0

    def close(self) -> None:
        while self._levels:
            self._levels.pop().close()

    def count_bytes(
        self,
        top: int,
        enough: int,
        enough_files: int = UNLIMITED,
        deadline: float = float("inf"),
        skipped: frozenset[str] = frozenset(),
    ) -> int:
        """Count it. `skipped`: names in the topmost folder that do not count."""
        self._skipped = skipped
        self._push_level(top)
        while (
            self._levels
            and self._counted_bytes <= enough
            and self.files <= enough_files
            and time.monotonic() < deadline
        ):
            self._count_step(deadline)
        return self._counted_bytes

    def _count_step(self, deadline: float) -> None:
        """Count one entry, or leave a folder that has no more."""
        level = self._levels[-1]
        if level.entries is not None:
            if not self._count_next_entry(level, is_top=len(self._levels) == 1):
                self._leave_folder()
        elif not level.pending:
            self._leave_folder()
        if self._levels and self._levels[-1].pending:
            level = self._levels[-1]
            self._pending -= 1
            self._enter_folder(level, level.pending.pop(), deadline)

    def _count_next_entry(self, level: _FolderLevel, *, is_top: bool, most_pending: int = UNLIMITED) -> bool:
        """Count an entry; False if there is none. A folder becomes pending."""
        assert level.entries is not None
        try:
            entry = next(level.entries, None)
            status = entry.stat(follow_symlinks=False) if entry is not None else None
        except FileNotFoundError:
            return True
        except OSError:
            return False
        if entry is None or status is None:
            return False
        if is_top and entry.name in self._skipped:
            return True
        self._counted_bytes += self._count_size(status)
        self.files += 1
        if stat.S_ISDIR(status.st_mode) and self._pending < most_pending:
            level.pending.append(entry.name)
            self._pending += 1
        return True

    def _count_size(self, status: os.stat_result) -> int:
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if status.st_ino in self._linked:
                return 0
            if len(self._linked) < _MAX_LINKED_FILES:
                self._linked.add(status.st_ino)
        return status.st_blocks * _BLOCK_SIZE

    def _enter_folder(self, level: _FolderLevel, name: str, deadline: float) -> None:
        try:
            fd = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=level.fd)
        except OSError:
            return
        if os.fstat(fd).st_dev != self._device:
            os.close(fd)
            return
        if len(self._levels) - self._closed >= MAX_OPEN_LEVELS:
            self._close_uppermost_folder(deadline)
        self._push_level(fd)

    def _push_level(self, fd: int) -> None:
        try:
            self._levels.append(_FolderLevel(fd, os.fstat(fd).st_ino, os.scandir(fd)))
        except OSError:
            os.close(fd)

    def _close_uppermost_folder(self, deadline: float) -> None:
        """Count the rest of the uppermost open folder first: once it is reopened, its entries start again."""
        level = self._levels[self._closed]
        while level.entries is not None and time.monotonic() < deadline:
            if not self._count_next_entry(level, is_top=self._closed == 0, most_pending=_MAX_PENDING_FOLDERS):
                level.close_entries()
        level.close()
        self._closed += 1

    def _leave_folder(self) -> None:
        left = self._levels.pop()
        if self._levels and self._levels[-1].fd is None:
            self._reopen_parent(left)
        left.close()

    def _reopen_parent(self, below: _FolderLevel) -> None:
        """Reopen the folder above, unless the one below was moved: then the rest is not counted."""
        level = self._levels[-1]
        self._closed -= 1
        try:
            level.fd = os.open("..", OPEN_FOLDER_FLAGS, dir_fd=below.fd)
            status = os.fstat(level.fd)
        except OSError:
            self.close()
            return
        if (status.st_dev, status.st_ino) != (self._device, level.inode):
            self.close()
