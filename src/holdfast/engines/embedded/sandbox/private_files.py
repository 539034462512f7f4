"""Finds the machine's files that are closed to other users. Blocking: call it from a thread.

System folders are large and rarely change, so results are cached: a folder with the same change time has the same
entries. Mounting in a folder does not change that time, so folders with mount points are listed each time.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

_MIN_CHANGE_AGE = 2.0  # seconds after which the next change of a folder is sure to change its change time


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenPath:
    """A path of the machine that is hidden from tasks."""

    path: str
    mode: int | None = None  # a folder that stays, empty, with this mode; None: removed
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The entries of one folder. Thousands of them are kept."""

    signature: int
    count: int
    private: tuple[HiddenPath, ...]
    folders: tuple[str, ...]  # readable by everyone
    unreadable: tuple[str, ...] = ()


@dataclass(slots=True)
class PrivateFiles:
    """The result of a search."""

    hidden: list[HiddenPath] = field(default_factory=list)
    too_big: list[str] = field(default_factory=list)  # hidden because the budget was used up
    unreadable: list[str] = field(default_factory=list)  # hidden because they are unreadable
    memory: dict[str, FolderListing] = field(default_factory=dict)  # for the next search


def find_private_files(
    tops: Iterable[str],
    skip: Collection[str],
    budget: int,
    known: Mapping[str, FolderListing] | None = None,
    mount_points: Iterable[str] = (),
) -> PrivateFiles:
    """Search below these folders, breadth first, so that the budget of entries only cuts off deep ones.

    Paths in `skip` are left out. `known` is the memory of an earlier search. A top folder that is unreadable raises
    OSError; anything unreadable below it is hidden.
    """
    with_mounts = {os.path.dirname(point) for point in mount_points}
    found = PrivateFiles()
    queue: deque[str] = deque()
    for top in tops:
        _add_listing(_classify_top_folder(top), skip, found, queue)
    first = frozenset(queue)
    while queue and budget > 0:
        folder = queue.popleft()
        try:
            signature, settled = _read_signature(folder)
            listing = _EMPTY_LISTING if folder in with_mounts else (known or {}).get(folder, _EMPTY_LISTING)
            if listing.signature != signature:
                listing = _list_folder(folder, signature)
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted since its parent was listed
        except OSError:
            if folder in first:
                raise
            found.hidden.append(HiddenPath(path=folder, mode=0o755))
            found.unreadable.append(folder)
            continue
        if settled and not listing.unreadable and folder not in with_mounts:
            found.memory[folder] = listing
        budget -= listing.count
        _add_listing(listing, skip, found, queue)
    found.hidden += [HiddenPath(path=path, mode=0o755) for path in queue]
    found.too_big += queue
    return found


_EMPTY_LISTING = FolderListing(-1, 0, (), ())


def _add_listing(listing: FolderListing, skip: Collection[str], found: PrivateFiles, queue: deque[str]) -> None:
    found.hidden += [entry for entry in listing.private if entry.path not in skip]
    found.unreadable += [path for path in listing.unreadable if path not in skip]
    queue += [path for path in listing.folders if path not in skip]


def _classify_top_folder(top: str) -> FolderListing:
    try:
        status = os.lstat(top)
    except FileNotFoundError:
        return _EMPTY_LISTING
    private: list[HiddenPath] = []
    folders: list[str] = []
    _classify_entry(top, status, private, folders)
    return FolderListing(-1, 0, tuple(private), tuple(folders))


def _read_signature(folder: str) -> tuple[int, bool]:
    """Return a number that changes with the folder's entries and cannot be reset, and whether the next change will
    show. One number: a tuple of three takes three times the memory."""
    status = os.lstat(folder)
    settled = time.time() - status.st_ctime > _MIN_CHANGE_AGE
    return ((status.st_dev << 64 | status.st_ino) << 64) + status.st_ctime_ns, settled


def _list_folder(folder: str, signature: int) -> FolderListing:
    private: list[HiddenPath] = []
    folders: list[str] = []
    unreadable: list[str] = []
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            count += 1
            try:
                if entry.is_symlink():
                    continue
                _classify_entry(entry.path, entry.stat(follow_symlinks=False), private, folders)
            except FileNotFoundError:
                continue
            except OSError:
                private.append(HiddenPath(path=entry.path))
                unreadable.append(entry.path)
    return FolderListing(signature, count, tuple(private), tuple(folders), tuple(unreadable))


def _classify_entry(path: str, status: os.stat_result, private: list[HiddenPath], folders: list[str]) -> None:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return
    if stat.S_ISDIR(mode):
        if mode & 0o005 == 0o005:
            folders.append(path)
        else:
            private.append(HiddenPath(path=path, mode=stat.S_IMODE(mode), uid=status.st_uid, gid=status.st_gid))
    elif not stat.S_ISREG(mode) or not mode & 0o004:
        private.append(HiddenPath(path=path))  # sockets, pipes and devices too: they lead outside
