"""A group's shared files on disk. Its jobs write to the same folder, and may put anything there at any time: so each
part of a path is opened as what it is, and no link is ever followed.

What comes in is gathered beside the tree, where no job sees it, and what goes out is moved there first: a file is there
whole or not at all, and a folder that is removed is gone at once.
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

from ..refusals import Unavailable
from .paths import MAX_DEPTH, own_names
from .walk import OPEN_FILE, OPEN_FOLDER, Stopped, closing_fd

log = logging.getLogger(__name__)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BUSY: set[str] = set()  # what is being cleared away just now, by its name
CLEARING = 60.0  # seconds for what one group removed, at each turn
_PASSES = 3  # through a folder that is being emptied, since names may come and go meanwhile


class Tree:
    def __init__(self, shared: SharedFolders, group: str) -> None:
        self._shared = shared
        self._group = group

    # -- reading

    def folder(self, parts: tuple[str, ...]) -> int:
        """A descriptor of the folder. FileNotFoundError or NotADirectoryError when it is none."""
        fd = os.open(self._shared.files(self._group), OPEN_FOLDER)
        for part in parts:
            fd = _step(fd, part)
        return fd

    def file(self, parts: tuple[str, ...]) -> tuple[int, os.stat_result]:
        """A descriptor of a plain file. NotFound when there is none, whatever else of that name there is."""
        try:
            with closing_fd(self.folder(parts[:-1])) as folder:
                fd = os.open(parts[-1], OPEN_FILE, dir_fd=folder)
        except OSError as error:
            raise missing(parts, error) from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise no_file(parts, folder=stat.S_ISDIR(status.st_mode))
        return fd, status

    def is_file(self, parts: tuple[str, ...]) -> bool:
        try:
            with closing_fd(self.file(parts)[0]):
                return True
        except (NotFound, Unavailable):
            return False

    def is_folder(self, parts: tuple[str, ...]) -> bool:
        try:
            with closing_fd(self.folder(parts)):
                return True
        except OSError:
            return False

    # -- writing

    def check_place(self, parts: tuple[str, ...]) -> None:
        """Conflict when there can be no file of this path; before its first byte is read."""
        fd = os.open(self._shared.make_files(self._group), OPEN_FOLDER)
        for depth, part in enumerate(parts[:-1]):
            try:
                fd = _step(fd, part)
            except FileNotFoundError:
                return
            except OSError as error:
                raise in_the_way(parts[: depth + 1], error) from None
        with closing_fd(fd):
            _check_no_folder(fd, parts)

    def settle(self, fd: int, upload: Path, parts: tuple[str, ...]) -> os.stat_result:
        """What has come in becomes the file of this path, in place of the one that was there."""
        os.fsync(fd)
        for last in (False, False, True):
            try:
                self._place(upload, parts)
            except FileNotFoundError:  # somebody removed the folder that was just made
                if last:
                    raise
            else:
                break
        return os.fstat(fd)

    def _place(self, upload: Path, parts: tuple[str, ...]) -> None:
        with closing_fd(self._made_folder(parts[:-1])) as folder:
            try:
                os.rename(upload, parts[-1], dst_dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
                    raise _is_folder(parts) from None
                raise
            os.fsync(folder)

    def new_upload(self) -> Path:
        """A name for a file on its way in."""
        return self._shared.make(self._shared.uploads(self._group)) / secrets.token_hex(16)

    def _made_folder(self, parts: tuple[str, ...]) -> int:
        fd = os.open(self._shared.make_files(self._group), OPEN_FOLDER)
        for depth, part in enumerate(parts):
            try:
                fd = _make_step(fd, part)
            except (NotADirectoryError, OSError) as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    raise in_the_way(parts[: depth + 1], error) from None
                raise
        return fd

    # -- removing

    def remove_file(self, parts: tuple[str, ...]) -> bool:
        """Whatever it is but a folder; False when there is none."""
        try:
            with closing_fd(self.folder(parts[:-1])) as folder:
                os.unlink(parts[-1], dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise
        return True

    def remove_all(self, parts: tuple[str, ...], starts: str, stop: threading.Event) -> int:
        """Everything in a folder whose name begins with `starts`, with all that lies below; how many were no folders.
        What the platform keeps in the folder itself stays, unless the whole folder is meant."""
        try:
            fd = self.folder(parts)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            if error.errno == errno.ELOOP:
                return 0
            raise
        kept = own_names("".join(f"{part}/" for part in parts)) if starts else frozenset[str]()
        with closing_fd(fd), self._ground() as ground:
            count = sum(_remove_matching(fd, ground, starts, kept, stop) for _ in range(_PASSES))
            return count + empty(ground, stop)

    def remove_folder(self, parts: tuple[str, ...], stop: threading.Event) -> int:
        """The folder with all that is in it: gone at once, then cleared away."""
        with closing_fd(self.folder(parts[:-1])) as above, self._ground() as ground:
            _move_away(above, parts[-1], ground)
            return empty(ground, stop)

    def prune(self, parts: tuple[str, ...]) -> None:
        """Folders that have become empty go, from this one upwards: object stores have none."""
        with suppress(OSError):
            for depth in range(len(parts), 0, -1):
                with closing_fd(self.folder(parts[: depth - 1])) as above:
                    os.rmdir(parts[depth - 1], dir_fd=above)

    @contextmanager
    def _ground(self) -> Iterator[int]:
        """A folder of our own to clear away in. What is left in it, `clear_removed` finds. A disk without room for one
        more folder must not keep anybody from making room: then it is the one that all share."""
        above = self._shared.make(self._shared.removed(self._group))
        place = above / secrets.token_hex(16)
        _BUSY.add(place.name)
        try:
            with closing_fd(os.open(_made(place) or above, OPEN_FOLDER)) as fd:
                yield fd
            with suppress(OSError):
                place.rmdir()
        finally:
            _BUSY.discard(place.name)


def _made(folder: Path) -> Path | None:
    """None when there is no room for it."""
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        return None
    return folder


def clear_uploads(shared: SharedFolders) -> None:
    """What a server that was killed had half received. To be called before the first request. What cannot be removed,
    as on a disk that may only be read just now, keeps no server from starting."""
    try:
        left = [path for group in _groups(shared) for path in shared.uploads(group).glob("*")]
    except OSError as error:
        log.warning("could not look for half received files", extra={"event": "uploads", "error": str(error)})
        return
    for path in left:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("could not remove a half received file", extra={"event": "uploads", "error": str(error)})


def clear_removed(shared: SharedFolders, stop: threading.Event) -> None:
    """What was moved away and not cleared yet, such as by a server that was killed. A job that has such a folder open
    can fill it as fast as it is emptied: so each group has its time, and the next comes."""
    for group in _groups(shared):
        with suppress(OSError, Stopped), closing_fd(os.open(shared.removed(group), OPEN_FOLDER)) as ground:
            empty(ground, Timed(stop, CLEARING))
        if stop.is_set():
            raise Stopped


class Timed(threading.Event):
    """Set when the other one is, or when so many seconds are over."""

    def __init__(self, stop: threading.Event, seconds: float) -> None:
        super().__init__()
        self._stop = stop
        self._until = time.monotonic() + seconds

    def is_set(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._until


def _groups(shared: SharedFolders) -> list[str]:
    """All that ever kept anything."""
    try:
        return os.listdir(shared.root / "groups")  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return []


def empty(ground: int, stop: threading.Event) -> int:
    """Clear a folder of ours away, to the last thing in it that nobody else is clearing; how many were no folders."""
    count = 0
    stays: set[str] = set()  # cannot be removed: left to the next time
    while names := _first_names(ground, leave=_BUSY | stays):
        for name in names:
            try:
                count += _remove_entry(ground, name, ground, 0, stop)
            except OSError:
                stays.add(name)
    return count


def _first_names(folder: int, most: int = 1000, leave: AbstractSet[str] = frozenset()) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in leave:
                found.append(entry.name)
            if len(found) == most:
                break
    return found


def _remove_matching(folder: int, ground: int, starts: str, kept: frozenset[str], stop: threading.Event) -> int:
    """Plain things at once; folders are moved away, to be emptied there."""
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if stop.is_set():
                raise Stopped
            is_dir = entry.is_dir(follow_symlinks=False)
            if not entry.name.startswith(starts) or (f"{entry.name}/" if is_dir else entry.name) in kept:
                continue
            with suppress(FileNotFoundError, IsADirectoryError):
                if is_dir:
                    _move_away(folder, entry.name, ground)
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
    if depth >= MAX_DEPTH:  # descriptors and our own stack are not endless: its turn comes at the top
        _move_away(folder, name, ground)
        return 0
    count = _remove_inside(folder, name, ground, depth, stop)
    os.rmdir(name, dir_fd=folder)
    return count


def _remove_inside(folder: int, name: str, ground: int, depth: int, stop: threading.Event) -> int:
    count = 0
    with closing_fd(_open_to_remove(folder, name)) as fd:
        while names := _first_names(fd):
            for below in names:
                if stop.is_set():
                    raise Stopped
                count += _remove_entry(fd, below, ground, depth + 1, stop)
    return count


def _open_to_remove(folder: int, name: str) -> int:
    _reopen(folder, name)
    return os.open(name, OPEN_FOLDER, dir_fd=folder)


def _move_away(folder: int, name: str, ground: int) -> None:
    with suppress(NotADirectoryError):
        _reopen(folder, name)
    os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=ground)


def _reopen(folder: int, name: str) -> None:
    """A folder whose owner closed it, to everybody or to changes, is opened to us again."""
    with closing_fd(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)) as fd:
        if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{fd}").chmod(stat.S_IRWXU)


# -- steps


def _step(fd: int, part: str) -> int:
    """One folder down; the descriptor of the upper one is closed in any case."""
    with closing_fd(fd):
        return os.open(part, OPEN_FOLDER, dir_fd=fd)


def _make_step(fd: int, part: str) -> int:
    with closing_fd(fd):
        try:
            os.mkdir(part, 0o755, dir_fd=fd)
            os.fsync(fd)
        except FileExistsError:
            pass
        return os.open(part, OPEN_FOLDER, dir_fd=fd)


def _check_no_folder(folder: int, parts: tuple[str, ...]) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
            raise _is_folder(parts)


# -- what went wrong, in words


def show_path(parts: tuple[str, ...]) -> str:
    """In errors; names come from anywhere."""
    text = "/".join(parts)
    return text[:200] if text.isprintable() else repr(text[:200])


def missing(parts: tuple[str, ...], error: OSError) -> NotFound | Unavailable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG):
        return NotFound(msg("There is no file {parts}", parts=show_path(parts)))
    return Unavailable(msg("{parts} cannot be read: {strerror}", parts=show_path(parts), strerror=error.strerror))


def no_file(parts: tuple[str, ...], *, folder: bool) -> NotFound:
    if folder:
        return NotFound(
            msg("{parts} is a folder", parts=show_path(parts)),
            hint=msg("Name a file in it, or take all of it: -r on the command line."),
        )
    return NotFound(msg("There is no file {parts}", parts=show_path(parts)))


def in_the_way(parts: tuple[str, ...], error: OSError) -> Conflict | Unavailable:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return Conflict(
            msg("{parts} is not a folder, so nothing can lie in it", parts=show_path(parts)),
            field="path",
            hint=msg("Choose another path, or remove that file first."),
        )
    return Unavailable(msg("{parts} cannot be used: {strerror}", parts=show_path(parts), strerror=error.strerror))


def _is_folder(parts: tuple[str, ...]) -> Conflict:
    return Conflict(
        msg("{parts} is a folder", parts=show_path(parts)),
        field="path",
        hint=msg("Choose another name, or remove the folder first."),
    )


def not_kept(parts: tuple[str, ...], error: OSError) -> Unavailable:
    if error.errno in _FULL:
        return Unavailable(
            msg(
                "{parts} was not kept: there is no room left for it on the disk of the shared files",
                parts=show_path(parts),
            ),
            hint=msg("Remove files that nobody needs any more, or ask an admin for a larger disk (files.folder)."),
        )
    return Unavailable(msg("{parts} was not kept: {strerror}", parts=show_path(parts), strerror=error.strerror))
