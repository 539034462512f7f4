"""Finds what of the machine's files is closed to other users. Blocking: call it from a thread.

System folders are large and rarely change, so what was found in them can be remembered: a folder whose change time is
the same has the same entries as before. Mounting something in a folder does not change that time, so folders with mount
points in them are listed each time.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

_SETTLED = 2.0  # seconds since the last change of a folder, after which its change time tells of the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """One thing of the machine that tasks must not see."""

    path: str
    mode: int | None = None  # a folder that stays, empty, with this mode; None: gone
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """What one folder holds. Thousands of them are kept."""

    signature: int
    count: int
    private: tuple[Hidden, ...]
    folders: tuple[str, ...]  # open to everyone
    unreadable: tuple[str, ...] = ()


@dataclass(slots=True)
class PrivateFiles:
    """What a search found."""

    hidden: list[Hidden] = field(default_factory=list)
    too_big: list[str] = field(default_factory=list)  # hidden because the budget was used up
    unreadable: list[str] = field(default_factory=list)  # hidden because they could not be examined
    memory: dict[str, Listing] = field(default_factory=dict)  # for the next search


def find_private_files(
    tops: Iterable[str],
    skip: Collection[str],
    budget: int,
    known: Mapping[str, Listing] | None = None,
    mount_points: Iterable[str] = (),
) -> PrivateFiles:
    """Search below these folders, breadth first, so that what the budget of entries cuts off lies deep.

    Paths in `skip` are left out. `known` is the memory of an earlier search. A top folder that cannot be examined
    raises OSError; anything below it that cannot be is hidden."""
    with_mounts = {os.path.dirname(point) for point in mount_points}
    found = PrivateFiles()
    queue: deque[str] = deque()
    for top in tops:
        _collect(_judge_top(top), skip, found, queue)
    first = frozenset(queue)
    while queue and budget > 0:
        folder = queue.popleft()
        try:
            signature, settled = _signature(folder)
            listing = _NOTHING if folder in with_mounts else (known or {}).get(folder, _NOTHING)
            if listing.signature != signature:
                listing = _list_folder(folder, signature)
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed since its parent was listed
        except OSError:
            if folder in first:
                raise
            found.hidden.append(Hidden(path=folder, mode=0o755))
            found.unreadable.append(folder)
            continue
        if settled and not listing.unreadable and folder not in with_mounts:
            found.memory[folder] = listing
        budget -= listing.count
        _collect(listing, skip, found, queue)
    found.hidden += [Hidden(path=path, mode=0o755) for path in queue]
    found.too_big += queue
    return found


_NOTHING = Listing(-1, 0, (), ())


def _collect(listing: Listing, skip: Collection[str], found: PrivateFiles, queue: deque[str]) -> None:
    found.hidden += [entry for entry in listing.private if entry.path not in skip]
    found.unreadable += [path for path in listing.unreadable if path not in skip]
    queue += [path for path in listing.folders if path not in skip]


def _judge_top(top: str) -> Listing:
    try:
        status = os.lstat(top)
    except FileNotFoundError:
        return _NOTHING
    private: list[Hidden] = []
    folders: list[str] = []
    _judge(top, status, private, folders)
    return Listing(-1, 0, tuple(private), tuple(folders))


def _signature(folder: str) -> tuple[int, bool]:
    """It changes with the folder's entries, and cannot be set back; and whether the next change will show. One number:
    a tuple of three takes three times the memory."""
    status = os.lstat(folder)
    settled = time.time() - status.st_ctime > _SETTLED
    return ((status.st_dev << 64 | status.st_ino) << 64) + status.st_ctime_ns, settled


def _list_folder(folder: str, signature: int) -> Listing:
    private: list[Hidden] = []
    folders: list[str] = []
    unreadable: list[str] = []
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            count += 1
            try:
                if entry.is_symlink():
                    continue
                _judge(entry.path, entry.stat(follow_symlinks=False), private, folders)
            except FileNotFoundError:
                continue
            except OSError:
                private.append(Hidden(path=entry.path))
                unreadable.append(entry.path)
    return Listing(signature, count, tuple(private), tuple(folders), tuple(unreadable))


def _judge(path: str, status: os.stat_result, private: list[Hidden], folders: list[str]) -> None:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return
    if stat.S_ISDIR(mode):
        if mode & 0o005 == 0o005:
            folders.append(path)
        else:
            private.append(Hidden(path=path, mode=stat.S_IMODE(mode), uid=status.st_uid, gid=status.st_gid))
    elif not stat.S_ISREG(mode) or not mode & 0o004:
        private.append(Hidden(path=path))  # sockets, pipes and devices too: they lead out
