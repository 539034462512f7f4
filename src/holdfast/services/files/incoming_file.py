"""A file upload. Its steps are serialized, even after the request is cancelled, so that no file is closed while it is
written to."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from holdfast.disk_space import DiskThresholds, require_space

from .file_tree import FileTree


class FileUpload:
    def __init__(self, tree: FileTree, parts: tuple[str, ...], marks: DiskThresholds | None = None) -> None:
        """`marks`: required free disk space; a write beyond it raises OSError ENOSPC."""
        self._disk_thresholds = marks or DiskThresholds()
        self._tree = tree
        self._parts = parts
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._fd = -1
        self._discarded = False

    def create_upload(self) -> None:
        with self._lock:
            if self._discarded:
                return
            self._path = self._tree.create_upload_path()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o644)

    def write(self, data: bytes) -> None:
        with self._lock:
            if not self._discarded:
                require_space(self._fd, len(data), self._disk_thresholds)
            view = memoryview(data)
            while view and not self._discarded:
                view = view[os.write(self._fd, view) :]

    def commit(self) -> os.stat_result:
        """Move the complete file to its path."""
        with self._lock:
            assert self._path is not None, "it has not begun"
            return self._tree.commit_upload(self._fd, self._path, self._parts)

    def discard(self) -> None:
        """Delete the upload unless it was committed. Call last."""
        with self._lock:
            self._discarded = True
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            if self._path is not None:
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)
