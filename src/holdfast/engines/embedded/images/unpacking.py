"""Unpacks one layer of an image into a folder, and never anywhere else. Blocking: call it from a thread.

Archives are hostile until proven otherwise: names that climb out, links that lead out, devices, and sizes that fill
the disk. Nobody else writes into the folder meanwhile, so looking before creating is safe here.
"""

from __future__ import annotations

import os
import stat
import tarfile
from contextlib import suppress
from typing import IO

from holdfast.core.messages import msg
from holdfast.disk_space import DiskMarks, read_disk_space, require_room

from ..sandbox.roots import resolve_inside
from ..tree_removal import remove_tree
from .tars import BadArchive, Tar

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MAX_ENTRIES = 5_000_000
_CHUNK = 1024 * 1024
_LOOK_INTERVAL = 16 * 1024 * 1024  # bytes written between two looks at the free space
_ENTRY_COST = 4096  # bytes a file takes at least, empty or not


class Unpacker:
    """For all layers of one image, from the lowest up."""

    def __init__(self, root: str, marks: DiskMarks | None = None) -> None:
        self._root = root
        self._marks = marks or DiskMarks()
        self._entries = 0
        self._since_look = _LOOK_INTERVAL
        self._parents: dict[str, str] = {}
        self._modes: dict[str, int] = {}
        self._own = os.geteuid() == 0
        self.size = 0
        self.skipped_devices = 0

    def add_layer(self, stream: IO[bytes], *, whiteouts: bool = True) -> None:
        fresh: set[str] = set()  # what this layer itself brought; its whiteouts mean only what lies below it
        try:
            with Tar.open(fileobj=stream, mode="r|*") as archive:
                while (entry := archive.next()) is not None:
                    archive.forget()
                    self._add(archive, entry, fresh, whiteouts)
        except (tarfile.TarError, EOFError, ValueError, UnicodeError, RecursionError) as error:
            raise BadArchive(msg("The archive is damaged: {error}", error=error)) from error

    def finish(self) -> None:
        """Give folders their modes, which might have kept us out before."""
        for path, mode in reversed(self._modes.items()):
            with suppress(OSError):  # replaced by something else since
                fd = self._open_folder(path)
                try:
                    os.fchmod(fd, mode if self._own else mode | 0o700)
                finally:
                    os.close(fd)

    def _open_folder(self, path: str) -> int:
        """Step by step from the root of the image: no link is followed, wherever it stands."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._root, flags)
        for part in path.removeprefix(self._root + "/").split("/"):
            try:
                below = os.open(part, flags, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd

    def _add(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, fresh: set[str], whiteouts: bool) -> None:
        self._count()
        parts = _parts(entry.name)
        if not parts:
            return  # the root folder itself
        name = parts[-1]
        folder = self._folder(parts[:-1])
        if whiteouts and name.startswith(_WHITEOUT):
            self._hide(folder, name, fresh)
            return
        target = f"{folder}/{name}"
        self._create(archive, entry, target)
        fresh.add(target)

    def _count(self) -> None:
        self._entries += 1
        if self._entries > _MAX_ENTRIES:
            raise BadArchive(msg("The image has more than {most_entries} files.", most_entries=_MAX_ENTRIES))
        self._check_room(_ENTRY_COST)

    def _folder(self, parts: list[str]) -> str:
        """The real folder for a path of the archive; links in between are followed, but only within the image."""
        wanted = "/".join(parts)
        found = self._parents.get(wanted)
        if found is None:
            found = self._resolve(parts)
            self._parents[wanted] = found
        return found

    def _resolve(self, parts: list[str]) -> str:
        place = self._root
        for index, part in enumerate(parts):
            inside = resolve_inside(self._root, "/" + "/".join(parts[: index + 1]))
            if inside is not None and inside.is_dir():
                place = str(inside)
                continue
            place = f"{place}/{part}"
            _make_way(place)
            self._mkdir(place)
        return place

    def _hide(self, folder: str, name: str, fresh: set[str]) -> None:
        names = os.listdir(folder) if name == _OPAQUE else [name.removeprefix(_WHITEOUT)]
        for gone in names:
            path = f"{folder}/{gone}"
            if gone not in ("", ".", "..") and path not in fresh and not _holds_any(path, fresh):
                remove_tree(path)
        self._parents.clear()

    def _create(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, target: str) -> None:
        if entry.isdir():
            self._make_folder(entry, target)
        elif entry.isreg():
            self._make_file(archive, entry, target)
        elif entry.issym():
            self._clear(target)
            os.symlink(entry.linkname, target)
            self._chown(entry, target)
        elif entry.islnk():
            self._make_link(entry, target)
        elif entry.isfifo():
            self._clear(target)
            os.mkfifo(target, 0o600)
            self._set(entry, target)
        else:
            self.skipped_devices += 1  # /dev is made anew for every task

    def _make_folder(self, entry: tarfile.TarInfo, target: str) -> None:
        if not _is_folder(target):
            self._clear(target)
            self._mkdir(target)
        self._chown(entry, target)
        self._modes[target] = entry.mode & 0o7777

    def _mkdir(self, path: str) -> None:
        """A mode remembered for the path was that of another folder, gone since."""
        self._modes.pop(path, None)
        os.mkdir(path, 0o755)

    def _make_file(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, target: str) -> None:
        self._check_size(entry)
        self._clear(target)
        source = archive.extractfile(entry)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            while source is not None and (chunk := source.read(_CHUNK)):
                self.size += len(chunk)
                self._check_room(len(chunk))
                file.write(chunk)
        self._set(entry, target)

    def _make_link(self, entry: tarfile.TarInfo, target: str) -> None:
        parts = _parts(entry.linkname)
        source = f"{self._folder(parts[:-1])}/{parts[-1]}" if parts else ""
        if not parts or not os.path.lexists(source) or _is_folder(source):
            raise BadArchive(
                msg(
                    "The archive is damaged: {name} links to {linkname}, which is not there.",
                    name=entry.name,
                    linkname=entry.linkname,
                )
            )
        if source != target:
            self._clear(target)
            os.link(source, target, follow_symlinks=False)

    def _clear(self, target: str) -> None:
        if os.path.lexists(target):
            if _is_folder(target) or os.path.islink(target):
                self._parents.clear()
            self._modes.pop(target, None)
            remove_tree(target)

    def _set(self, entry: tarfile.TarInfo, target: str) -> None:
        self._chown(entry, target)
        os.chmod(target, entry.mode & 0o7777)
        with suppress(OSError, OverflowError):
            os.utime(target, (entry.mtime, entry.mtime))

    def _chown(self, entry: tarfile.TarInfo, target: str) -> None:
        if self._own:
            with suppress(OverflowError):
                os.lchown(target, max(0, entry.uid), max(0, entry.gid))

    def _check_size(self, entry: tarfile.TarInfo) -> None:
        """Before the first byte: a size nobody has room for is not tried."""
        if entry.issparse():
            raise BadArchive(msg("{name} is a sparse file, which images do not hold.", name=repr(entry.name[:100])))
        if not 0 <= entry.size <= self._free():
            raise BadArchive(
                msg(
                    "{name} says it has {size} bytes, more than fit on the disk.",
                    name=repr(entry.name[:100]),
                    size=entry.size,
                )
            )

    def _free(self) -> int:
        return read_disk_space(self._root).free

    def _check_room(self, count: int) -> None:
        self._since_look += count
        if self._since_look < _LOOK_INTERVAL:
            return
        self._since_look = 0
        try:
            require_room(self._root, _LOOK_INTERVAL, self._marks)
        except OSError as error:
            raise no_room() from error


def no_room() -> BadArchive:
    return BadArchive(
        msg("There is not enough room on the server's disk to unpack the image."),
        hint=msg("Free room first: `holdfast prune` shows what takes it."),
    )


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or len(name) > 4096 or any(len(os.fsencode(part)) > 255 or "\0" in part for part in parts):
        raise BadArchive(msg("The archive holds a name that cannot be unpacked: {name}.", name=repr(name[:100])))
    return parts


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _make_way(path: str) -> None:
    """A file or a dangling link where a folder must be."""
    if os.path.lexists(path):
        os.unlink(path)


def _holds_any(path: str, fresh: set[str]) -> bool:
    return any(other.startswith(path + "/") for other in fresh)
