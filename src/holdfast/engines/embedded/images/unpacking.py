"""Unpacks one layer of an image into a folder, and never outside it. Blocking: call it from a thread.

Archives are hostile until proven otherwise: names and links that lead out, devices, and sizes that fill the disk. No
other process writes to the folder, so checking before creating is safe.
"""

from __future__ import annotations

import os
import stat
import tarfile
import threading
from contextlib import suppress
from typing import IO, cast

from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds, read_disk_space, require_space

from ..descriptors import closing_fd, open_below
from ..sandbox.roots import find_path_inside
from ..tree_removal import remove_tree
from .layer_streams import COMPRESSION_ERRORS, ByteSource, Hash, LayerReader
from .tars import BadArchive, ImageTar, NoDiskSpace

WHITEOUT_PREFIX = ".wh."
OPAQUE_WHITEOUT = ".wh..wh..opq"
_MAX_ENTRIES = 5_000_000
_SPACE_CHECK_SIZE = 16 * 1024 * 1024  # bytes written between two checks of the free space
_MAX_PATH_LENGTH = 4096  # characters
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MIN_ENTRY_SIZE = 4096  # min bytes of a file on disk, even if empty


class Unpacker:
    """Unpacks all layers of one image, from the lowest up."""

    _applies_whiteouts = True  # so the files of each layer are remembered while it is unpacked

    def __init__(self, root: str, marks: DiskThresholds | None = None) -> None:
        self._root = root
        self._marks = marks or DiskThresholds()
        self._entries = 0
        self._unchecked_bytes = _SPACE_CHECK_SIZE
        self._parents: dict[str, str] = {}  # path in the archive -> real folder
        self._modes: dict[str, int] = {}
        self._is_root = os.geteuid() == 0
        self.size = 0

    def add_layer(
        self,
        source: ByteSource,
        *,
        whiteouts: bool = True,
        digest: Hash | None = None,
        cancelled: threading.Event | None = None,
        announced_size: int | None = None,
    ) -> None:
        """Add a layer, compressed or not. `digest` gets all of its uncompressed bytes; `announced_size`, its compressed
        bytes, limits them."""
        fresh: set[str] = set()  # added by this layer; its whiteouts only apply to lower layers
        reader = LayerReader(source, digest=digest, cancelled=cancelled, announced_size=announced_size)
        try:
            with ImageTar.open(fileobj=cast(IO[bytes], reader), mode="r:") as archive:
                while (entry := archive.next()) is not None:
                    archive.drop_entries()
                    self._add_entry(reader, entry, fresh, whiteouts)
            reader.drain()
        except (tarfile.TarError, *COMPRESSION_ERRORS, ValueError, UnicodeError, RecursionError) as error:
            raise BadArchive(msg("The archive is damaged: {error}", error=error)) from error

    def set_folder_modes(self) -> None:
        """Set the modes of folders at the end, since they might deny us access before."""
        for path, mode in reversed(self._modes.items()):
            with suppress(OSError), closing_fd(self._open_folder(path)) as fd:  # it may have been replaced
                os.fchmod(fd, mode if self._is_root else mode | 0o700)

    def _open_folder(self, path: str) -> int:
        """Open it step by step from the root of the image, without following any link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return open_below(os.open(self._root, flags), path.removeprefix(self._root + "/").split("/"), flags)

    def _add_entry(self, reader: LayerReader, entry: tarfile.TarInfo, fresh: set[str], whiteouts: bool) -> None:
        self._check_entry_count()
        folder, name = self._find_place(entry.name)
        if not name:
            return  # the root folder itself
        if whiteouts and name.startswith(WHITEOUT_PREFIX):
            self._apply_whiteout(folder, name, fresh)
            return
        target = f"{folder}/{name}"
        self._create_entry(reader, entry, target)
        if whiteouts and self._applies_whiteouts:
            fresh.add(target)

    def _check_entry_count(self) -> None:
        self._entries += 1
        if self._entries > _MAX_ENTRIES:
            raise BadArchive(msg("The image has more than {max_entries} files.", max_entries=_MAX_ENTRIES))
        self._check_space(_MIN_ENTRY_SIZE)

    def _find_place(self, path: str) -> tuple[str, str]:
        """Return the real folder of a path of the archive, and the name there; an empty one: the root folder itself."""
        before, _, name = path.rpartition("/")
        found = self._parents.get(before)
        if found is not None and _is_plain_name(name) and len(path) <= _MAX_PATH_LENGTH:
            return found, name  # as most entries: the one before was in the same folder
        parts = _split_path(path)
        return (self._create_parent(parts[:-1]), parts[-1]) if parts else (self._root, "")

    def _create_parent(self, parts: list[str]) -> str:
        """Return the real folder for a path of the archive; links are resolved within the image."""
        wanted = "/".join(parts)
        found = self._parents.get(wanted)
        if found is None:
            found = self._create_folders(parts)
            self._parents[wanted] = found
        return found

    def _create_folders(self, parts: list[str]) -> str:
        if not parts:
            return self._root
        place = f"{self._create_parent(parts[:-1])}/{parts[-1]}"
        if _is_folder(place):
            return place
        inside = find_path_inside(self._root, place.removeprefix(self._root))
        if inside is not None and inside.is_dir():
            return str(inside)
        if os.path.lexists(place):  # a file or a dangling link
            os.unlink(place)
        self._mkdir(place)
        return place

    def _apply_whiteout(self, folder: str, name: str, fresh: set[str]) -> None:
        names = os.listdir(folder) if name == OPAQUE_WHITEOUT else [name.removeprefix(WHITEOUT_PREFIX)]
        for gone in names:
            path = f"{folder}/{gone}"
            contains_fresh = any(other.startswith(path + "/") for other in fresh)
            if gone not in ("", ".", "..") and path not in fresh and not contains_fresh:
                remove_tree(path)
        self._parents.clear()

    def _create_entry(self, reader: LayerReader, entry: tarfile.TarInfo, target: str) -> None:
        if entry.isdir():
            self._create_folder(entry, target)
        elif entry.isreg():
            self._create_file(reader, entry, target)
        elif entry.issym():
            self._remove_target(target)
            os.symlink(entry.linkname, target)
            self._chown(entry, target)
        elif entry.islnk():
            self._create_hard_link(entry, target)
        elif entry.isfifo():
            self._remove_target(target)
            os.mkfifo(target, 0o600)
            self._set_metadata(entry, target)
        elif not entry.isdev() and entry.size:
            raise BadArchive(
                msg("The archive contains {name}, which has an unknown type.", name=repr(entry.name[:100]))
            )
        # Devices are skipped: every task gets its own /dev.

    def _create_folder(self, entry: tarfile.TarInfo, target: str) -> None:
        if not _is_folder(target):
            self._remove_target(target)
            self._mkdir(target)
        self._chown(entry, target)
        self._modes[target] = entry.mode & 0o7777

    def _mkdir(self, path: str) -> None:
        """Create it; a mode recorded for the path belonged to an earlier folder."""
        self._modes.pop(path, None)
        os.mkdir(path, 0o755)

    def _create_file(self, reader: LayerReader, entry: tarfile.TarInfo, target: str) -> None:
        self._check_size(entry)
        reader.seek(entry.offset_data)
        fd = self._open_new_file(target)
        try:
            for piece in reader.iter_pieces(entry.size):
                self.size += len(piece)
                self._check_space(len(piece))
                _write_all(fd, piece)
            self._set_metadata(entry, fd)
        finally:
            os.close(fd)

    def _open_new_file(self, target: str) -> int:
        try:
            return os.open(target, _NEW_FILE_FLAGS, 0o600)
        except FileExistsError:  # perhaps a folder or a link
            self._remove_target(target)
        return os.open(target, _NEW_FILE_FLAGS, 0o600)

    def _create_hard_link(self, entry: tarfile.TarInfo, target: str) -> None:
        parts = _split_path(entry.linkname)
        source = f"{self._create_parent(parts[:-1])}/{parts[-1]}" if parts else ""
        if not parts or not os.path.lexists(source) or _is_folder(source):
            raise BadArchive(
                msg(
                    "The archive is damaged: {name} links to {linkname}, which does not exist.",
                    name=entry.name,
                    linkname=entry.linkname,
                )
            )
        if source != target:
            self._remove_target(target)
            os.link(source, target, follow_symlinks=False)

    def _remove_target(self, target: str) -> None:
        if os.path.lexists(target):
            if _is_folder(target) or os.path.islink(target):
                self._parents.clear()
            self._modes.pop(target, None)
            remove_tree(target)

    def _set_metadata(self, entry: tarfile.TarInfo, target: str | int) -> None:
        """Set it for a path, or for the descriptor of an open file."""
        self._chown(entry, target)
        os.chmod(target, entry.mode & 0o7777)
        with suppress(OSError, OverflowError):
            os.utime(target, (entry.mtime, entry.mtime))

    def _chown(self, entry: tarfile.TarInfo, target: str | int) -> None:
        if self._is_root:
            with suppress(OverflowError):
                os.chown(target, max(0, entry.uid), max(0, entry.gid), follow_symlinks=isinstance(target, int))

    def _check_size(self, entry: tarfile.TarInfo) -> None:
        """Reject a size larger than the free space before writing the first byte. `_check_space` is enough for less."""
        if entry.issparse():
            raise BadArchive(
                msg("{name} is a sparse file, which is not supported in images.", name=repr(entry.name[:100]))
            )
        if 0 <= entry.size <= _SPACE_CHECK_SIZE:
            return
        if not 0 <= entry.size <= read_disk_space(self._root).free:
            raise BadArchive(
                msg(
                    "{name} has a size of {size} bytes, which exceeds the free disk space.",
                    name=repr(entry.name[:100]),
                    size=entry.size,
                )
            )

    def _check_space(self, count: int) -> None:
        self._unchecked_bytes += count
        if self._unchecked_bytes < _SPACE_CHECK_SIZE:
            return
        self._unchecked_bytes = 0
        try:
            require_space(self._root, _SPACE_CHECK_SIZE, self._marks)
        except OSError as error:
            raise make_disk_space_error() from error


def make_disk_space_error() -> NoDiskSpace:
    return NoDiskSpace(
        msg("The server does not have enough disk space to unpack the image."),
        hint=msg("Free disk space first: run `holdfast prune` to see what uses it."),
    )


def _write_all(fd: int, rest: memoryview) -> None:
    """Write all of it: on a disk that becomes full, a single write may be short."""
    while rest:
        rest = rest[os.write(fd, rest) :]


def _split_path(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    is_valid = ".." not in parts and len(path) <= _MAX_PATH_LENGTH
    if not is_valid or any(len(os.fsencode(part)) > 255 or "\0" in part for part in parts):
        raise BadArchive(msg("The archive contains an invalid file name: {name}.", name=repr(path[:100])))
    return parts


def _is_plain_name(name: str) -> bool:
    """Return whether it is surely the valid name of an entry, whatever its encoding."""
    return 0 < len(name) <= 63 and "\0" not in name and name not in (".", "..")


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
