"""How much a folder holds, counted without following links or entering other filesystems. Blocking."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

UNLIMITED = 1 << 62
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DEEPEST = 200  # folders within folders; what lies deeper is not counted
_MOST_LINKED = 100_000  # files with several names that are remembered, so as to be counted once
_BLOCK = 512


def measure_tree(folder: Path | str, deadline: float) -> int:
    """Bytes that it takes on its disk, as far as they could be counted until the deadline (monotonic). What cannot be
    read, or goes meanwhile, is not counted."""
    try:
        top = os.open(folder, OPEN_FOLDER)
    except OSError:
        return 0
    walk = TreeWalk(os.fstat(top).st_dev)
    try:
        return walk.total(top, UNLIMITED, deadline=deadline)
    finally:
        walk.close()


class TreeWalk:
    """Counts what a folder holds. Holds one open folder for each level it is down, and no names."""

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
        enough_files: int = UNLIMITED,
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
            fd = os.open(name, OPEN_FOLDER, dir_fd=folder)
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
