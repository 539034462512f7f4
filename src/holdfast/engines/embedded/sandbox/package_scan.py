"""Remembers which of the machine's package files are private, for all engines of this process.

The first scan is a full one, unless an earlier server made one recently. After it, only changed folders are listed, and
none if only something outside was mounted. A full scan follows in the background when the last one is old: it finds
files whose mode was changed in place. Blocking: call it from a thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.core.messages import msg

from ..mount_table import Mount
from . import host
from .private_files import FolderListing, PrivateFiles
from .saved_scan import load_scan, save_scan

FULL_SCAN_INTERVAL = 600.0  # seconds
_FULL_SCAN_DELAY = 5.0  # seconds until the full scan of a server that started with a saved one

logger = logging.getLogger(__name__)


class PackageScanner:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: PrivateFiles | None = None
        self._mounts: Sequence[Mount] = ()  # in package folders, at the last scan
        self._full_at = 0.0
        self._background: threading.Thread | None = None
        self.generation = 0  # changes after each full scan

    def find_private_files(
        self, mounts: Sequence[Mount], saved: Path, *, only_mounts_changed: bool = False
    ) -> PrivateFiles:
        """Return the private files as far as folder changes show them. `saved`: file of the scan for the next
        server."""
        within = host.filter_package_mounts(mounts)
        with self._lock:
            if only_mounts_changed and self._found is not None and within == self._mounts:
                return self._found
            known = self._found.memory if self._found is not None else self._load_saved_listings(saved)
            is_old = time.monotonic() - self._full_at > FULL_SCAN_INTERVAL
            if known is not None and is_old and self._background is None:
                self._full_at = time.monotonic()
                self._background = threading.Thread(target=self._run_full_scan, args=(mounts, saved), daemon=True)
                self._background.start()
            found = self._found = host.scan_packages(mounts, known)
            self._mounts = within
            if known is None:
                self._full_at = time.monotonic()
                saving = threading.Thread(target=save_scan, args=(saved, found.memory, self._full_at), daemon=True)
                saving.start()
            return found

    def _load_saved_listings(self, saved: Path) -> dict[str, FolderListing] | None:
        known = load_scan(saved, FULL_SCAN_INTERVAL)
        if known is not None:
            self._full_at = time.monotonic() - FULL_SCAN_INTERVAL + _FULL_SCAN_DELAY
        return known

    def wait_for_scan(self) -> None:
        background = self._background
        if background is not None:
            background.join()

    def _run_full_scan(self, mounts: Sequence[Mount], saved: Path) -> None:
        began = time.monotonic()
        found: PrivateFiles | None = None
        try:
            found = host.scan_packages(mounts)
        except OSError:
            logger.exception(msg("Cannot search the system folders for private files"))
        with self._lock:
            self._background = None
            self._found = found or self._found
            self.generation += 1
        if found is not None:
            save_scan(saved, found.memory, began)


SHARED_SCANNER = PackageScanner()
