"""Remembers which of the machine's package files are private, for all engines of this process.

The first scan is a full one. After it, only folders that have changed are listed, and a full scan follows in the
background when the last one is old: it finds files whose mode was changed in place. Blocking: call it from a thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from . import host
from .mount_table import Mount
from .private_files import PrivateFiles

FULL_SCAN_INTERVAL = 600.0  # seconds

logger = logging.getLogger(__name__)


class PackageScan:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: PrivateFiles | None = None
        self._full_at = 0.0
        self._background: threading.Thread | None = None
        self.generation = 0  # changes when a full scan has ended

    def find(self, mounts: Sequence[Mount]) -> PrivateFiles:
        """What is private now, as far as folders show it."""
        with self._lock:
            known = self._found.memory if self._found is not None else None
            if known is None:
                self._full_at = time.monotonic()
            elif time.monotonic() - self._full_at > FULL_SCAN_INTERVAL and self._background is None:
                self._full_at = time.monotonic()
                self._background = threading.Thread(target=self._scan_fully, args=(mounts,), daemon=True)
                self._background.start()
            self._found = host.scan_packages(mounts, known)
            return self._found

    def wait(self) -> None:
        """Until no scan runs in the background."""
        background = self._background
        if background is not None:
            background.join()

    def _scan_fully(self, mounts: Sequence[Mount]) -> None:
        found: PrivateFiles | None = None
        try:
            found = host.scan_packages(mounts)
        except OSError:
            logger.exception("The system folders could not be searched for private files")
        with self._lock:
            self._background = None
            self._found = found or self._found
            self.generation += 1


SHARED = PackageScan()
