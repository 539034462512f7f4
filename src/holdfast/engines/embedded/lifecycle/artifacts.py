"""Collects the folder `artifacts` of an ended task's home. Blocking: runs in a thread.

The task has ended, but a link may lead to a folder that others still write to: so every entry is opened relative to its
open folder, as the type it was.
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
from holdfast.engines.artifacts import ArtifactSink, ArtifactsUnavailable, SkipReason

from ..folder_content import StartNote
from ..task_folder import TaskFolder
from .task_paths import TaskFiles

ARTIFACTS_FOLDER = "artifacts"
MAX_DEPTH = 60  # folders within folders
MAX_VISITED_ENTRIES = 100_000  # names read; of further ones only their existence is reported
_MAX_FOLDER_NAMES = 1_000_000  # read of one folder, to find the first in order

_FOLDER_OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_METACOPY_ATTRIBUTES = ("trusted.overlay.metacopy", "user.overlay.metacopy")

ArtifactPath = tuple[bytes, ...]


def may_have_artifacts(folder: TaskFolder, note: StartNote | None) -> bool:
    """Check names only, one by one: a link in the path could lead to a disk that does not respond."""
    if note is None or not note.home:
        return note is not None and os.path.lexists(folder["mounts"])
    own, *parts = note.home.split("/")  # the first is our own folder
    path = folder[own]
    for part in (*parts, ARTIFACTS_FOLDER):
        path = f"{path}/{part}"
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return False
        if not stat.S_ISDIR(mode):
            return True  # `collect` checks what it is
    return True


def collect_artifacts(folder: TaskFolder, note: StartNote, sink: ArtifactSink, uid: int | None = None) -> None:
    """`uid`: the only user whose files are collected, if not all are: a hard link may be to a file of another."""
    inside = TaskFiles(folder, note)
    try:
        top = inside.open_folder(f"{inside.home}/{ARTIFACTS_FOLDER}")
    except ArtifactsUnavailable as problem:
        raise ArtifactsUnavailable(
            msg("{name} in the task's home folder {problem}", name=ARTIFACTS_FOLDER, problem=problem)
        ) from problem
    if top is not None:
        _ArtifactWalker(sink, uid).add_all_files(top)


@dataclass(slots=True)
class _FolderLevel:
    fd: int
    path: ArtifactPath
    names: Iterator[bytes]


class _ArtifactWalker:
    def __init__(self, sink: ArtifactSink, uid: int | None = None) -> None:
        self._sink = sink
        self._uid = uid
        self._visited_count = 0

    def add_all_files(self, top: int) -> None:
        """Offer all files and close `top`. Folders are walked in the order of their names, without recursion."""
        levels = [_FolderLevel(top, (), iter(()))]
        try:
            levels[0].names = self._iter_sorted_names(top, ())
            while levels:
                level = levels[-1]
                name = next(level.names, None) if self._has_budget() else None
                if name is None:
                    os.close(levels.pop().fd)
                elif (below := self._visit_entry(level, name)) is not None:
                    path = (*level.path, name)
                    levels.append(_FolderLevel(below, path, iter(())))
                    levels[-1].names = self._iter_sorted_names(below, path)
        finally:  # the sink may fail
            for level in levels:
                os.close(level.fd)

    def _has_budget(self) -> bool:
        if self._visited_count > MAX_VISITED_ENTRIES:
            self._sink.mark_incomplete()
            return False
        return not self._sink.is_cancelled

    def _iter_sorted_names(self, folder: int, path: ArtifactPath) -> Iterator[bytes]:
        """Yield the names in order; of a folder with too many, the first ones."""
        try:
            found = heapq.nsmallest(MAX_VISITED_ENTRIES + 1, self._iter_scanned_names(folder))
        except OSError:
            self._sink.skip_entry(path, SkipReason.UNREADABLE)
            return iter(())
        return iter(found if path else [name for name in found if not name.startswith(b".")])

    def _iter_scanned_names(self, folder: int) -> Iterator[bytes]:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == _MAX_FOLDER_NAMES or (not count % 1024 and self._sink.is_cancelled):
                    self._sink.mark_incomplete()
                    return
                yield os.fsencode(entry.name)

    def _visit_entry(self, level: _FolderLevel, name: bytes) -> int | None:
        """Offer it; return a descriptor if it is a folder to walk."""
        self._visited_count += 1
        path = (*level.path, name)
        try:
            status = os.stat(name, dir_fd=level.fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and len(path) <= MAX_DEPTH:
                return os.open(name, _FOLDER_OPEN_FLAGS, dir_fd=level.fd)
        except OSError:
            self._sink.skip_entry(path, SkipReason.UNREADABLE)
            return None
        if stat.S_ISREG(status.st_mode) and self._uid not in (None, status.st_uid):
            self._sink.skip_entry(path, SkipReason.UNREADABLE)
        elif stat.S_ISREG(status.st_mode):
            self._sink.add_file(path, status.st_size, partial(_open_file, level.fd, name, self._uid))
        elif not _is_whiteout(status):
            self._sink.skip_entry(path, _get_skip_reason(status.st_mode))
        return None


def _is_whiteout(status: os.stat_result) -> bool:
    """Return whether an overlay recorded a deletion here."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _get_skip_reason(mode: int) -> SkipReason:
    if stat.S_ISDIR(mode):
        return SkipReason.TOO_DEEP
    return SkipReason.LINK if stat.S_ISLNK(mode) else SkipReason.SPECIAL


def _open_file(folder: int, name: bytes, uid: int | None = None) -> BinaryIO:
    """Open a regular file; it may have been replaced since it was listed."""
    fd = os.open(name, _FILE_OPEN_FLAGS, dir_fd=folder)
    status = os.fstat(fd)
    if uid is not None and status.st_uid != uid:
        os.close(fd)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if not stat.S_ISREG(status.st_mode) or _is_metacopy(fd):
        os.close(fd)
        raise OSError(errno.EINVAL, msg("Not a regular file"))
    return open(fd, "rb", buffering=0)


def _is_metacopy(fd: int) -> bool:
    """Return whether the content is still in the image, as in an overlay with metacopy."""
    try:
        return not set(os.listxattr(fd)).isdisjoint(_METACOPY_ATTRIBUTES)
    except OSError:
        return False
