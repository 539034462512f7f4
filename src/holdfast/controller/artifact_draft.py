"""Collects a task's artifacts in a folder that no job sees, up to the limits. Blocking: runs in a thread."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds, require_space
from holdfast.engines.artifacts import SkipReason

MAX_PATH_LENGTH = 2000  # bytes of a path
MAX_FILE_NAME_LENGTH = 255
_BLOCK_SIZE = 1 << 20  # bytes
_MAX_SKIPPED_NAMES = 3
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

PathParts = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ArtifactAmount:
    """How many files and bytes can be saved."""

    files: int
    bytes: int


@dataclass(slots=True)
class CollectionResult:
    """Result of collecting a task's artifacts."""

    files: int = 0
    bytes: int = 0
    skipped: Counter[SkipReason] = field(default_factory=Counter)
    skipped_bytes: int = 0
    skipped_names: list[str] = field(default_factory=list)  # the first skipped files
    more: bool = False  # there were more, not counted
    moved: list[str] = field(default_factory=list)  # new paths of existing files that were moved


class UnreadableFile(Exception):
    """The task's file cannot be read; not an error of the destination."""


class StagingArtifactSink:
    """The engine's ArtifactSink."""

    def __init__(
        self, top: int, room: ArtifactAmount, is_over: Callable[[], bool], marks: DiskThresholds | None = None
    ) -> None:
        """`top`: a private folder. `is_over`: the collection was cancelled. `marks`: disk space that must stay free."""
        self._marks = marks or DiskThresholds()
        self._top = top
        self._room = room
        self._is_over = is_over
        self._open: tuple[PathParts, int] | None = None  # the folder written to last
        self.tally = CollectionResult()

    @property
    def is_cancelled(self) -> bool:
        return self._is_over()

    def add_file(self, path: PathParts, size: int, open_file: Callable[[], BinaryIO]) -> None:
        if path[0].startswith(b"."):
            return
        why = self._find_skip_reason(path, size)
        if why is None:
            why = self._try_copy_file(path, size, open_file)
        if why is not None:
            self.skip_entry(path, why)
            self.tally.skipped_bytes += size

    def skip_entry(self, path: PathParts, why: SkipReason, count: int = 1) -> None:
        self.tally.skipped[why] += count
        if len(self.tally.skipped_names) < _MAX_SKIPPED_NAMES:
            self.tally.skipped_names.append(format_path(path))

    def mark_incomplete(self) -> None:
        self.tally.more = True

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _find_skip_reason(self, path: PathParts, size: int) -> SkipReason | None:
        if not is_valid_path(path):
            return SkipReason.INVALID_NAME
        if self.tally.skipped[SkipReason.NO_SPACE]:
            return SkipReason.NO_SPACE
        if self.tally.files >= self._room.files:
            return SkipReason.TOO_MANY
        return SkipReason.TOO_LARGE if self.tally.bytes + size > self._room.bytes else None

    def _try_copy_file(self, path: PathParts, size: int, open_file: Callable[[], BinaryIO]) -> SkipReason | None:
        try:
            with _open_source(open_file) as source:
                self._copy_file(source, path, size)
        except UnreadableFile:
            return SkipReason.UNREADABLE
        except OSError as error:
            if error.errno in _DISK_FULL_ERRORS:
                return SkipReason.NO_SPACE
            raise  # a disk error would affect the next file too
        self.tally.files += 1
        self.tally.bytes += size
        return None

    def _copy_file(self, source: BinaryIO, path: PathParts, size: int) -> None:
        folder = self._open_folder(path[:-1])
        fd = os.open(path[-1], _NEW_FILE_FLAGS, 0o644, dir_fd=folder)
        try:
            require_space(fd, size, self._marks)
            self._copy_content(fd, source, size)
            os.fsync(fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(path[-1], dir_fd=folder)
            raise
        finally:
            os.close(fd)

    def _copy_content(self, fd: int, source: BinaryIO, size: int) -> None:
        """Copy the content; blocks of zeros become holes."""
        at = 0
        while at < size and (data := _read_source(source, min(_BLOCK_SIZE, size - at))):
            if self._is_over():
                raise OSError(errno.ECANCELED, msg("The collection was cancelled"))
            if data[0] or data != bytes(len(data)):
                _write_at(fd, data, at)
            at += len(data)
        os.ftruncate(fd, at)

    def _open_folder(self, path: PathParts) -> int:
        """Open or create a folder; the last one stays open, since files arrive folder by folder."""
        if self._open is None or self._open[0] != path:
            self.close()
            self._open = (path, open_or_create_folder(self._top, path))
        return self._open[1]


def open_or_create_folder(top: int, path: PathParts) -> int:
    fd = os.open(b".", _FOLDER_FLAGS, dir_fd=top)
    for part in path:
        try:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
            below = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _open_source(open_file: Callable[[], BinaryIO]) -> BinaryIO:
    try:
        return open_file()
    except OSError as error:
        raise UnreadableFile from error


def _read_source(source: BinaryIO, count: int) -> bytes:
    try:
        return source.read(count)
    except OSError as error:
        raise UnreadableFile from error


def _write_at(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written


def is_valid_path(path: PathParts) -> bool:
    """Whether users can request it by name, and it stays within the folder."""
    try:
        b"/".join(path).decode()
    except UnicodeDecodeError:
        return False
    fits = sum(map(len, path)) + len(path) <= MAX_PATH_LENGTH and all(
        len(part) <= MAX_FILE_NAME_LENGTH for part in path
    )
    return fits and not any(part in (b"", b".", b"..") or b"/" in part or b"\0" in part for part in path)


def format_path(path: PathParts) -> str:
    """Format a path for messages; a name can contain any bytes."""
    text = b"/".join(path).decode("utf-8", "backslashreplace")
    text = text if len(text) <= 100 else f"{text[:50]}...{text[-47:]}"
    return text if text.isprintable() else repr(text)
