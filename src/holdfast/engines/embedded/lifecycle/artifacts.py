"""What an ended task left in the folder `artifacts` of its home. Blocking: runs in a thread.

The task is gone, but a link may lead to a folder that others write to meanwhile: so every name is opened as what it is,
in the open folder it was found in.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from holdfast.core.messages import msg
from holdfast.engines.base import ArtifactSink, ArtifactsUnavailable, LeftOut

from ..folder_content import StartNote
from ..task_folder import TaskFolder
from .task_paths import Inside

NAME = "artifacts"
MAX_DEPTH = 60  # folders within folders
MAX_LOOKS = 100_000  # names looked at; of more it is only said that there are more
_MAX_NAMES = 1_000_000  # read of one folder, to find those that come first

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_METACOPY = ("trusted.overlay.metacopy", "user.overlay.metacopy")

Path = tuple[bytes, ...]


def may_have_artifacts(folder: TaskFolder, note: StartNote | None) -> bool:
    """Looks at names only, each in its turn: a link on the way could lead to a disk that does not answer."""
    if note is None or not note.home:
        return note is not None and os.path.lexists(folder["mounts"])
    own, *parts = note.home.split("/")  # the first is a folder of ours
    path = folder[own]
    for part in (*parts, NAME):
        path = f"{path}/{part}"
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return False
        if not stat.S_ISDIR(mode):
            return True  # `collect` finds out what it is
    return True


def collect(folder: TaskFolder, note: StartNote, sink: ArtifactSink) -> None:
    inside = Inside(folder, note)
    try:
        top = inside.open_folder(f"{inside.home}/{NAME}")
    except ArtifactsUnavailable as problem:
        raise ArtifactsUnavailable(msg("{name} in the task's home {problem}", name=NAME, problem=problem)) from problem
    if top is not None:
        _Walk(sink).offer_all(top)


@dataclass(slots=True)
class _Level:
    fd: int
    path: Path
    names: Iterator[bytes]


class _Walk:
    def __init__(self, sink: ArtifactSink) -> None:
        self._sink = sink
        self._looks = 0

    def offer_all(self, top: int) -> None:
        """Closes `top`. Folders are gone through in the order of their names, without recursion."""
        levels = [_Level(top, (), iter(()))]
        try:
            levels[0].names = self._names(top, ())
            while levels:
                level = levels[-1]
                name = next(level.names, None) if self._goes_on() else None
                if name is None:
                    os.close(levels.pop().fd)
                elif (below := self._offer(level, name)) is not None:
                    path = (*level.path, name)
                    levels.append(_Level(below, path, iter(())))
                    levels[-1].names = self._names(below, path)
        finally:  # whoever takes them may fail
            for level in levels:
                os.close(level.fd)

    def _goes_on(self) -> bool:
        if self._looks > MAX_LOOKS:
            self._sink.not_counted()
            return False
        return not self._sink.ended

    def _names(self, folder: int, path: Path) -> Iterator[bytes]:
        """In order; of a folder with too many, those that come first."""
        try:
            found = heapq.nsmallest(MAX_LOOKS + 1, self._read(folder))
        except OSError:
            self._sink.leave(path, LeftOut.UNREADABLE)
            return iter(())
        return iter(found if path else [name for name in found if not name.startswith(b".")])

    def _read(self, folder: int) -> Iterator[bytes]:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == _MAX_NAMES or (not count % 1024 and self._sink.ended):
                    self._sink.not_counted()
                    return
                yield os.fsencode(entry.name)

    def _offer(self, level: _Level, name: bytes) -> int | None:
        """A descriptor of it if it is a folder to go into."""
        self._looks += 1
        path = (*level.path, name)
        try:
            status = os.stat(name, dir_fd=level.fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and len(path) <= MAX_DEPTH:
                return os.open(name, _OPEN_FOLDER, dir_fd=level.fd)
        except OSError:
            self._sink.leave(path, LeftOut.UNREADABLE)
            return None
        if stat.S_ISREG(status.st_mode):
            self._sink.take(path, status.st_size, partial(_open_file, level.fd, name))
        elif not _is_whiteout(status):
            self._sink.leave(path, _why_not(status.st_mode))
        return None


def _is_whiteout(status: os.stat_result) -> bool:
    """How an overlay remembers what was deleted."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _why_not(mode: int) -> LeftOut:
    if stat.S_ISDIR(mode):
        return LeftOut.DEEP
    return LeftOut.LINK if stat.S_ISLNK(mode) else LeftOut.SPECIAL


def _open_file(folder: int, name: bytes) -> BinaryIO:
    """It may have become something else since it was looked at."""
    fd = os.open(name, _OPEN_FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode) or _is_without_content(fd):
        os.close(fd)
        raise OSError(errno.EINVAL, msg("It is no plain file"))
    return open(fd, "rb", buffering=0)


def _is_without_content(fd: int) -> bool:
    """Where an overlay is set up to copy only what changed, the content may have stayed in the image."""
    try:
        return not set(os.listxattr(fd)).isdisjoint(_METACOPY)
    except OSError:
        return False
