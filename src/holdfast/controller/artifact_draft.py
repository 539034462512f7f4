"""Artifacts on their way in: written to a folder that no job sees, as many as fit. Blocking: runs in a thread."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from holdfast.core.messages import msg
from holdfast.disk_space import DiskMarks, require_room
from holdfast.engines.base import LeftOut

MAX_LENGTH = 2000  # bytes of a path
MAX_PART_LENGTH = 255
_BLOCK = 1 << 20
_NAMED = 3  # of what was left out
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Path = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be kept."""

    files: int
    bytes: int


@dataclass(slots=True)
class Tally:
    """What became of a task's artifacts."""

    files: int = 0
    bytes: int = 0
    left: Counter[LeftOut] = field(default_factory=Counter)
    left_bytes: int = 0
    named: list[str] = field(default_factory=list)  # the first that were left out
    more: bool = False  # there were others that nobody counted
    moved: list[str] = field(default_factory=list)  # what was in their place, by its new path


class Unreadable(Exception):
    """The file of the task's, not the place it is copied to."""


class Draft:
    """An engine's ArtifactSink."""

    def __init__(self, top: int, room: Room, is_over: Callable[[], bool], marks: DiskMarks | None = None) -> None:
        """`top`: a folder that is ours alone. `is_over`: nobody waits any more. `marks`: what must stay free there."""
        self._marks = marks or DiskMarks()
        self._top = top
        self._room = room
        self._is_over = is_over
        self._open: tuple[Path, int] | None = None  # the folder written to last
        self.tally = Tally()

    @property
    def ended(self) -> bool:
        return self._is_over()

    def take(self, path: Path, size: int, open_file: Callable[[], BinaryIO]) -> None:
        if path[0].startswith(b"."):
            return
        why = self._why_not(path, size)
        if why is None:
            why = self._write(path, size, open_file)
        if why is not None:
            self.leave(path, why)
            self.tally.left_bytes += size

    def leave(self, path: Path, why: LeftOut, count: int = 1) -> None:
        self.tally.left[why] += count
        if len(self.tally.named) < _NAMED:
            self.tally.named.append(shown(path))

    def not_counted(self) -> None:
        self.tally.more = True

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _why_not(self, path: Path, size: int) -> LeftOut | None:
        if not can_be_named(path):
            return LeftOut.NAME
        if self.tally.left[LeftOut.NO_ROOM]:
            return LeftOut.NO_ROOM
        if self.tally.files >= self._room.files:
            return LeftOut.TOO_MANY
        return LeftOut.TOO_LARGE if self.tally.bytes + size > self._room.bytes else None

    def _write(self, path: Path, size: int, open_file: Callable[[], BinaryIO]) -> LeftOut | None:
        try:
            with _opened(open_file) as source:
                self._copy(source, path, size)
        except Unreadable:
            return LeftOut.UNREADABLE
        except OSError as error:
            if error.errno in _FULL:
                return LeftOut.NO_ROOM
            raise  # whatever ails the disk, the next file would meet it too
        self.tally.files += 1
        self.tally.bytes += size
        return None

    def _copy(self, source: BinaryIO, path: Path, size: int) -> None:
        folder = self._folder(path[:-1])
        fd = os.open(path[-1], _NEW_FILE, 0o644, dir_fd=folder)
        try:
            require_room(fd, size, self._marks)
            self._fill(fd, source, size)
            os.fsync(fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(path[-1], dir_fd=folder)
            raise
        finally:
            os.close(fd)

    def _fill(self, fd: int, source: BinaryIO, size: int) -> None:
        """Where there is nothing but zeros, nothing is written: a file may be one large hole."""
        at = 0
        while at < size and (data := _read(source, min(_BLOCK, size - at))):
            if self._is_over():
                raise OSError(errno.ECANCELED, msg("Nobody waits for it any more"))
            if data[0] or data != bytes(len(data)):
                _write_at(fd, data, at)
            at += len(data)
        os.ftruncate(fd, at)

    def _folder(self, path: Path) -> int:
        """Made where it is missing; the last one stays open, for files come folder by folder."""
        if self._open is None or self._open[0] != path:
            self.close()
            self._open = (path, make_folders(self._top, path))
        return self._open[1]


def make_folders(top: int, path: Path) -> int:
    fd = os.open(b".", _FOLDER, dir_fd=top)
    for part in path:
        try:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
            below = os.open(part, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _opened(open_file: Callable[[], BinaryIO]) -> BinaryIO:
    try:
        return open_file()
    except OSError as error:
        raise Unreadable from error


def _read(source: BinaryIO, count: int) -> bytes:
    try:
        return source.read(count)
    except OSError as error:
        raise Unreadable from error


def _write_at(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written


def can_be_named(path: Path) -> bool:
    """People can ask for it by name; and no engine's mistake leads out of the folder."""
    try:
        b"/".join(path).decode()
    except UnicodeDecodeError:
        return False
    fits = sum(map(len, path)) + len(path) <= MAX_LENGTH and all(len(part) <= MAX_PART_LENGTH for part in path)
    return fits and not any(part in (b"", b".", b"..") or b"/" in part or b"\0" in part for part in path)


def shown(path: Path) -> str:
    """In words for people; a name may hold anything."""
    text = b"/".join(path).decode("utf-8", "backslashreplace")
    text = text if len(text) <= 100 else f"{text[:50]}...{text[-47:]}"
    return text if text.isprintable() else repr(text)
