"""A group's shared files on disk. Its jobs write to the same folder and can change it at any time, so each component of
a path is opened separately and links are never followed.

Uploads are written outside the tree, where no job sees them, and deleted folders are first moved there: so uploads and
deletions are atomic.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.messages import msg
from holdfast.shared_folders import SharedFolders

from ..errors import Unavailable
from .folder_scan import OPEN_FILE_FLAGS, OPEN_FOLDER_FLAGS, WorkCancelled, closing_fd
from .paths import MAX_DEPTH, get_reserved_names

log = logging.getLogger(__name__)

_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ACTIVE_TRASH_NAMES: set[str] = set()  # names of trash folders in use
CLEANUP_TIMEOUT = 60.0  # seconds per group and cleanup
_REMOVE_PASS_COUNT = 3  # over a folder, since jobs can add names during a pass


class FileTree:
    def __init__(self, shared: SharedFolders, group: str) -> None:
        self._shared = shared
        self._group = group

    # -- reading

    def open_folder(self, parts: tuple[str, ...]) -> int:
        """Open a folder. FileNotFoundError or NotADirectoryError if there is none."""
        fd = os.open(self._shared.get_files_folder(self._group), OPEN_FOLDER_FLAGS)
        for part in parts:
            fd = _open_subfolder(fd, part)
        return fd

    def open_file(self, parts: tuple[str, ...]) -> tuple[int, os.stat_result]:
        """Open a regular file. NotFound if there is none."""
        try:
            with closing_fd(self.open_folder(parts[:-1])) as folder:
                fd = os.open(parts[-1], OPEN_FILE_FLAGS, dir_fd=folder)
        except OSError as error:
            raise build_read_error(parts, error) from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise build_not_file_error(parts, folder=stat.S_ISDIR(status.st_mode))
        return fd, status

    def is_file(self, parts: tuple[str, ...]) -> bool:
        try:
            with closing_fd(self.open_file(parts)[0]):
                return True
        except (NotFound, Unavailable):
            return False

    def is_folder(self, parts: tuple[str, ...]) -> bool:
        try:
            with closing_fd(self.open_folder(parts)):
                return True
        except OSError:
            return False

    # -- writing

    def check_path(self, parts: tuple[str, ...]) -> None:
        """Raise Conflict if no file can have this path. Call before reading data."""
        fd = os.open(self._shared.create_files_folder(self._group), OPEN_FOLDER_FLAGS)
        for depth, part in enumerate(parts[:-1]):
            try:
                fd = _open_subfolder(fd, part)
            except FileNotFoundError:
                return
            except OSError as error:
                raise build_not_folder_error(parts[: depth + 1], error) from None
        with closing_fd(fd):
            _check_not_folder(fd, parts)

    def commit_upload(self, fd: int, upload: Path, parts: tuple[str, ...]) -> os.stat_result:
        """Move an upload to its path, replacing an earlier file."""
        os.fsync(fd)
        for last in (False, False, True):
            try:
                self._rename_upload(upload, parts)
            except FileNotFoundError:  # the new folder was deleted concurrently
                if last:
                    raise
            else:
                break
        return os.fstat(fd)

    def _rename_upload(self, upload: Path, parts: tuple[str, ...]) -> None:
        with closing_fd(self._open_or_create_folder(parts[:-1])) as folder:
            try:
                os.rename(upload, parts[-1], dst_dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
                    raise _build_is_folder_error(parts) from None
                raise
            os.fsync(folder)

    def create_upload_path(self) -> Path:
        return self._shared.create_folder(self._shared.get_uploads_folder(self._group)) / secrets.token_hex(16)

    def _open_or_create_folder(self, parts: tuple[str, ...]) -> int:
        fd = os.open(self._shared.create_files_folder(self._group), OPEN_FOLDER_FLAGS)
        for depth, part in enumerate(parts):
            try:
                fd = _open_or_create_subfolder(fd, part)
            except (NotADirectoryError, OSError) as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    raise build_not_folder_error(parts[: depth + 1], error) from None
                raise
        return fd

    # -- removing

    def remove_file(self, parts: tuple[str, ...]) -> bool:
        """Delete anything but a folder. Return False if there is nothing."""
        try:
            with closing_fd(self.open_folder(parts[:-1])) as folder:
                os.unlink(parts[-1], dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise
        return True

    def remove_matching_files(self, parts: tuple[str, ...], starts: str, stop: threading.Event) -> int:
        """Delete all names that start with `starts`; reserved ones only if it is empty. Return the number of files."""
        try:
            fd = self.open_folder(parts)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            if error.errno == errno.ELOOP:
                return 0
            raise
        kept = get_reserved_names("".join(f"{part}/" for part in parts)) if starts else frozenset[str]()
        with closing_fd(fd), self._create_trash_folder() as ground:
            count = sum(_remove_matching_entries(fd, ground, starts, kept, stop) for _ in range(_REMOVE_PASS_COUNT))
            return count + delete_contents(ground, stop)

    def remove_folder(self, parts: tuple[str, ...], stop: threading.Event) -> int:
        """Delete a folder with its contents. It disappears atomically, before its contents are deleted."""
        with closing_fd(self.open_folder(parts[:-1])) as above, self._create_trash_folder() as ground:
            _move_to_trash(above, parts[-1], ground)
            return delete_contents(ground, stop)

    def remove_empty_parents(self, parts: tuple[str, ...]) -> None:
        """Delete this folder and its parents if they are empty: object stores have no empty folders."""
        with suppress(OSError):
            for depth in range(len(parts), 0, -1):
                with closing_fd(self.open_folder(parts[: depth - 1])) as above:
                    os.rmdir(parts[depth - 1], dir_fd=above)

    @contextmanager
    def _create_trash_folder(self) -> Iterator[int]:
        """If the disk is full, use the common trash, so that users can still free space. Leftovers: `empty_trash`."""
        above = self._shared.create_folder(self._shared.get_removed_folder(self._group))
        trash = above / secrets.token_hex(16)
        _ACTIVE_TRASH_NAMES.add(trash.name)
        try:
            with closing_fd(os.open(_try_mkdir(trash) or above, OPEN_FOLDER_FLAGS)) as fd:
                yield fd
            with suppress(OSError):
                trash.rmdir()
        finally:
            _ACTIVE_TRASH_NAMES.discard(trash.name)


def _try_mkdir(folder: Path) -> Path | None:
    """Create a folder; None if the disk is full."""
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRNOS:
            raise
        return None
    return folder


def delete_partial_uploads(shared: SharedFolders) -> None:
    """For a killed server, before the first request. Errors are logged, so that it can start on a read-only disk."""
    try:
        left = [path for group in list_groups_with_files(shared) for path in shared.get_uploads_folder(group).glob("*")]
    except OSError as error:
        log.warning("could not list partial uploads", extra={"event": "uploads", "error": str(error)})
        return
    for path in left:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("could not delete a partial upload", extra={"event": "uploads", "error": str(error)})


def empty_trash(shared: SharedFolders, stop: threading.Event) -> None:
    """A job with an open folder there can fill it while it is emptied, so each group has a timeout."""
    for group in list_groups_with_files(shared):
        with (
            suppress(OSError, WorkCancelled),
            closing_fd(os.open(shared.get_removed_folder(group), OPEN_FOLDER_FLAGS)) as ground,
        ):
            delete_contents(ground, TimedEvent(stop, CLEANUP_TIMEOUT))
        if stop.is_set():
            raise WorkCancelled


class TimedEvent(threading.Event):
    """Set when the other event is set or after a timeout."""

    def __init__(self, stop: threading.Event, seconds: float) -> None:
        super().__init__()
        self._stop = stop
        self._deadline = time.monotonic() + seconds

    def is_set(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._deadline


def list_groups_with_files(shared: SharedFolders) -> list[str]:
    """Return all groups that ever had files."""
    try:
        return os.listdir(shared.root / "groups")  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return []


def delete_contents(ground: int, stop: threading.Event) -> int:
    """Delete the contents of a trash folder, except trash folders in use. Return the number of files."""
    count = 0
    undeletable: set[str] = set()  # cannot be deleted: left for the next run
    while names := _list_names(ground, leave=_ACTIVE_TRASH_NAMES | undeletable):
        for name in names:
            try:
                count += _remove_entry(ground, name, ground, 0, stop)
            except OSError:
                undeletable.add(name)
    return count


def _list_names(folder: int, most: int = 1000, leave: AbstractSet[str] = frozenset()) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in leave:
                found.append(entry.name)
            if len(found) == most:
                break
    return found


def _remove_matching_entries(folder: int, ground: int, starts: str, kept: frozenset[str], stop: threading.Event) -> int:
    """Delete matching files; move matching folders to the trash."""
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if stop.is_set():
                raise WorkCancelled
            is_dir = entry.is_dir(follow_symlinks=False)
            if not entry.name.startswith(starts) or (f"{entry.name}/" if is_dir else entry.name) in kept:
                continue
            with suppress(FileNotFoundError, IsADirectoryError):
                if is_dir:
                    _move_to_trash(folder, entry.name, ground)
                else:
                    os.unlink(entry.name, dir_fd=folder)
                    count += 1
    return count


def _remove_entry(folder: int, name: str, ground: int, depth: int, stop: threading.Event) -> int:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        pass
    except FileNotFoundError:
        return 0
    else:
        return 1
    if depth >= MAX_DEPTH:  # limits descriptors and recursion: deleted later from the top of the trash
        _move_to_trash(folder, name, ground)
        return 0
    count = _remove_contents(folder, name, ground, depth, stop)
    os.rmdir(name, dir_fd=folder)
    return count


def _remove_contents(folder: int, name: str, ground: int, depth: int, stop: threading.Event) -> int:
    count = 0
    _restore_permissions(folder, name)
    with closing_fd(os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)) as fd:
        while names := _list_names(fd):
            for below in names:
                if stop.is_set():
                    raise WorkCancelled
                count += _remove_entry(fd, below, ground, depth + 1, stop)
    return count


def _move_to_trash(folder: int, name: str, ground: int) -> None:
    with suppress(NotADirectoryError):
        _restore_permissions(folder, name)
    os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=ground)


def _restore_permissions(folder: int, name: str) -> None:
    """Restore the owner's permissions on a folder, so that it can be deleted."""
    with closing_fd(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)) as fd:
        if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{fd}").chmod(stat.S_IRWXU)


# -- path components


def _open_subfolder(fd: int, part: str) -> int:
    """Open a subfolder and close its parent, also on errors."""
    with closing_fd(fd):
        return os.open(part, OPEN_FOLDER_FLAGS, dir_fd=fd)


def _open_or_create_subfolder(fd: int, part: str) -> int:
    with closing_fd(fd):
        try:
            os.mkdir(part, 0o755, dir_fd=fd)
            os.fsync(fd)
        except FileExistsError:
            pass
        return os.open(part, OPEN_FOLDER_FLAGS, dir_fd=fd)


def _check_not_folder(folder: int, parts: tuple[str, ...]) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
            raise _build_is_folder_error(parts)


# -- errors


def format_path(parts: tuple[str, ...]) -> str:
    """Format a path for errors; it is not trusted."""
    text = "/".join(parts)
    return text[:200] if text.isprintable() else repr(text[:200])


def build_read_error(parts: tuple[str, ...], error: OSError) -> NotFound | Unavailable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG):
        return NotFound(msg("File {path} not found", path=format_path(parts)))
    return Unavailable(msg("{path} cannot be read: {error}", path=format_path(parts), error=error.strerror))


def build_not_file_error(parts: tuple[str, ...], *, folder: bool) -> NotFound:
    if folder:
        return NotFound(
            msg("{path} is a folder", path=format_path(parts)),
            hint=msg("Choose a file in it, or use -r to download the whole folder."),
        )
    return NotFound(msg("File {path} not found", path=format_path(parts)))


def build_not_folder_error(parts: tuple[str, ...], error: OSError) -> Conflict | Unavailable:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return Conflict(
            msg("{path} is not a folder, so it cannot contain files", path=format_path(parts)),
            field="path",
            hint=msg("Choose another path, or delete that file first."),
        )
    return Unavailable(msg("Cannot open the folder {path}: {error}", path=format_path(parts), error=error.strerror))


def _build_is_folder_error(parts: tuple[str, ...]) -> Conflict:
    return Conflict(
        msg("{path} is a folder", path=format_path(parts)),
        field="path",
        hint=msg("Choose another name, or delete the folder first."),
    )


def build_write_error(parts: tuple[str, ...], error: OSError) -> Unavailable:
    if error.errno in _DISK_FULL_ERRNOS:
        return Unavailable(
            msg("{path} was not saved: the disk for shared files is full", path=format_path(parts)),
            hint=msg("Delete files you no longer need, or ask an admin for a larger disk (files.folder)."),
        )
    return Unavailable(msg("{path} was not saved: {error}", path=format_path(parts), error=error.strerror))
