"""Reading a folder tree that others change meanwhile, and that may be made to trap whoever reads it.

Links are never followed and nothing but plain files and folders is shown. Whatever the tree's size, only a portion of a
folder's names is held at a time, and only so many are looked at in one walk.
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

from .paths import MAX_DEPTH, own_names

MAX_LOOKS = 1_000_000  # names looked at in one walk
PORTION = 2000  # names held of one folder

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Stopped(Exception):
    """Nobody waits for the answer any more."""


class LookedEnough(Exception):
    """There is more than one walk may look at."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file, or a folder: its name ends in a slash then, and nothing is known of its size and time."""

    name: str
    size: int
    modified_at: datetime | None


@dataclass(frozen=True, slots=True)
class Listing:
    items: tuple[Item, ...]
    complete: bool  # False: there is more
    left_out: int  # links, devices, names that are not UTF-8, what lies too deep or cannot be read


class Walk:
    """One look through a tree, in the order of the full names, as object stores sort them."""

    def __init__(
        self, stop: threading.Event, *, recursive: bool, after: str = "", show_own: frozenset[str] = frozenset()
    ) -> None:
        self._stop = stop
        self._recursive = recursive
        self._after = after
        self._show_own = show_own
        self._looks = 0
        self.left_out = 0

    def items(self, folder: int, path: str = "", starts: str = "", depth: int = 0) -> Iterator[Item]:
        """What lies in the folder, which is called `path` ("a/b/" or ""), and begins with `starts`."""
        hidden = own_names(path) - self._show_own
        low = max(starts, self._first(path))
        while keys := self._portion(folder, starts, low, hidden):
            for key in keys:
                yield from self._shown(folder, path, key, depth)
            low = f"{keys[-1]}\0"

    def _first(self, path: str) -> str:
        """The first name in this folder that may come after what was shown before."""
        if not self._after.startswith(path):
            return ""
        name, slash, _ = self._after[len(path) :].partition("/")
        return name + slash

    def _portion(self, folder: int, starts: str, low: str, hidden: frozenset[str]) -> list[str]:
        """The next names from `low` on, in order; of folders with a slash at the end."""
        first = low == starts
        keys = (
            key
            for key in self._keys(folder, count_rest=first)
            if key >= low and key.startswith(starts) and key not in hidden
        )
        return heapq.nsmallest(PORTION, keys)

    def _keys(self, folder: int, *, count_rest: bool) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._look()
                if not _is_text(entry.name):
                    self.left_out += count_rest
                elif entry.is_dir(follow_symlinks=False):
                    yield f"{entry.name}/"
                elif entry.is_file(follow_symlinks=False):
                    yield entry.name
                else:
                    self.left_out += count_rest

    def _look(self) -> None:
        self._looks += 1
        if self._looks > MAX_LOOKS:
            raise LookedEnough
        if not self._looks % 256 and self._stop.is_set():
            raise Stopped

    def _shown(self, folder: int, path: str, key: str, depth: int) -> Iterator[Item]:
        full = path + key
        if not key.endswith("/"):
            item = _file(folder, key, full)
            self.left_out += item is None
            if item is not None and full > self._after:
                yield item
        elif not self._recursive:
            if full > self._after:
                yield Item(full, 0, None)
        elif full > self._after or self._after.startswith(full):
            yield from self._below(folder, full, key, depth)

    def _below(self, folder: int, full: str, key: str, depth: int) -> Iterator[Item]:
        if depth >= MAX_DEPTH:
            self.left_out += 1
            return
        try:
            fd = os.open(key[:-1], OPEN_FOLDER, dir_fd=folder)
        except OSError:  # gone, another thing by now, or closed to us
            self.left_out += 1
            return
        with closing_fd(fd):
            yield from self.items(fd, full, depth=depth + 1)


def collect(walk: Walk, items: Iterator[Item], limit: int) -> Listing:
    found: list[Item] = []
    complete = True
    try:
        for item in items:
            if len(found) == limit:
                complete = False
                break
            found.append(item)
    except LookedEnough:
        complete = False
    return Listing(tuple(found), complete, walk.left_out)


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def modified(status: os.stat_result) -> datetime | None:
    """Whoever owns a file sets its time as they like, also to one that no calendar has."""
    try:
        return datetime.fromtimestamp(status.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _file(folder: int, name: str, full: str) -> Item | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return Item(full, status.st_size, modified(status)) if stat.S_ISREG(status.st_mode) else None


def _is_text(name: str) -> bool:
    """Python shows bytes that are no UTF-8 as halves of characters."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
