"""Listing a folder tree that jobs change concurrently and that can be hostile.

Links are never followed, and only regular files and folders are listed. Memory and the number of entries per scan are
limited, whatever the size of the tree.
"""

from __future__ import annotations

import heapq
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from ..names import is_utf8
from .paths import MAX_DEPTH, get_reserved_names

MAX_SCANNED_ENTRIES = 1_000_000  # names per scan
NAMES_BATCH_SIZE = 2000  # names of one folder in memory

OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class WorkCancelled(Exception):
    """The request was cancelled."""


class ScanLimitReached(Exception):
    """The tree has more entries than one scan may read."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, or a folder: then its name ends in a slash, without size and time."""

    name: str
    size: int
    modified_at: datetime | None


@dataclass(frozen=True, slots=True)
class FileListing:
    items: tuple[FileEntry, ...]
    complete: bool  # False: there is more
    left_out: int  # links, devices, names that are not UTF-8, too deep or not readable


class FolderScan:
    """One scan of a tree, sorted by full names like object stores."""

    def __init__(
        self, stop: threading.Event, *, recursive: bool, after: str = "", show_own: frozenset[str] = frozenset()
    ) -> None:
        self._stop = stop
        self._recursive = recursive
        self._after = after
        self._show_own = show_own
        self._scanned = 0
        self.left_out = 0

    def iter_entries(self, folder: int, path: str = "", starts: str = "", depth: int = 0) -> Iterator[FileEntry]:
        """Yield the entries of a folder whose names start with `starts`. `path`: of the folder ("a/b/" or "")."""
        hidden = get_reserved_names(path) - self._show_own
        low = max(starts, self._find_start_name(path))
        while keys := self._list_next_names(folder, starts, low, hidden):
            for key in keys:
                yield from self._expand_name(folder, path, key, depth)
            low = f"{keys[-1]}\0"

    def _find_start_name(self, path: str) -> str:
        """Return the first name in this folder to continue from."""
        if not self._after.startswith(path):
            return ""
        name, slash, _ = self._after[len(path) :].partition("/")
        return name + slash

    def _list_next_names(self, folder: int, starts: str, low: str, hidden: frozenset[str]) -> list[str]:
        """Return the next names from `low` on, sorted; folders with a trailing slash."""
        first = low == starts
        keys = (
            key
            for key in self._iter_names(folder, count_rest=first)
            if key >= low and key.startswith(starts) and key not in hidden
        )
        return heapq.nsmallest(NAMES_BATCH_SIZE, keys)

    def _iter_names(self, folder: int, *, count_rest: bool) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._count_entry()
                if not is_utf8(entry.name):
                    self.left_out += count_rest
                elif entry.is_dir(follow_symlinks=False):
                    yield f"{entry.name}/"
                elif entry.is_file(follow_symlinks=False):
                    yield entry.name
                else:
                    self.left_out += count_rest

    def _count_entry(self) -> None:
        self._scanned += 1
        if self._scanned > MAX_SCANNED_ENTRIES:
            raise ScanLimitReached
        if not self._scanned % 256 and self._stop.is_set():
            raise WorkCancelled

    def _expand_name(self, folder: int, path: str, key: str, depth: int) -> Iterator[FileEntry]:
        full = path + key
        if not key.endswith("/"):
            item = _stat_file(folder, key, full)
            self.left_out += item is None
            if item is not None and full > self._after:
                yield item
        elif not self._recursive:
            if full > self._after:
                yield FileEntry(full, 0, None)
        elif full > self._after or self._after.startswith(full):
            yield from self._iter_subfolder(folder, full, key, depth)

    def _iter_subfolder(self, folder: int, full: str, key: str, depth: int) -> Iterator[FileEntry]:
        if depth >= MAX_DEPTH:
            self.left_out += 1
            return
        try:
            fd = os.open(key[:-1], OPEN_FOLDER_FLAGS, dir_fd=folder)
        except OSError:  # deleted, replaced or not readable
            self.left_out += 1
            return
        with closing_fd(fd):
            yield from self.iter_entries(fd, full, depth=depth + 1)


def build_listing(walk: FolderScan, items: Iterator[FileEntry], limit: int) -> FileListing:
    found: list[FileEntry] = []
    complete = True
    try:
        for item in items:
            if len(found) == limit:
                complete = False
                break
            found.append(item)
    except ScanLimitReached:
        complete = False
    return FileListing(tuple(found), complete, walk.left_out)


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def get_modified_time(status: os.stat_result) -> datetime | None:
    """Return the modification time; None if a user set it to an invalid one."""
    try:
        return datetime.fromtimestamp(status.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _stat_file(folder: int, name: str, full: str) -> FileEntry | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return FileEntry(full, status.st_size, get_modified_time(status)) if stat.S_ISREG(status.st_mode) else None
