"""A file on its way in. Each step waits for the one before it, also where nobody waits for that any more: so nothing is
closed while it is written to."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from holdfast.disk_space import DiskMarks, require_room

from .tree import Tree


class Incoming:
    def __init__(self, tree: Tree, parts: tuple[str, ...], marks: DiskMarks | None = None) -> None:
        """`marks`: it may not fill the disk; that is an OSError ENOSPC."""
        self._marks = marks or DiskMarks()
        self._tree = tree
        self._parts = parts
        self._turn = threading.Lock()
        self._path: Path | None = None
        self._fd = -1
        self._over = False

    def begin(self) -> None:
        with self._turn:
            if self._over:
                return
            self._path = self._tree.new_upload()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o644)

    def write(self, data: bytes) -> None:
        with self._turn:
            if not self._over:
                require_room(self._fd, len(data), self._marks)
            view = memoryview(data)
            while view and not self._over:
                view = view[os.write(self._fd, view) :]

    def settle(self) -> os.stat_result:
        """It is there now, whole."""
        with self._turn:
            assert self._path is not None, "it has not begun"
            return self._tree.settle(self._fd, self._path, self._parts)

    def drop(self) -> None:
        """What was not settled goes. The last step."""
        with self._turn:
            self._over = True
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            if self._path is not None:
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)
