"""Builds the root filesystem of an image from unpacked layers: folders, and hard links to the layers' files.

Blocking: call it from a thread. Layers are hostile. A folder of the root is opened step by step without following links
before anything is created in it, because a layer may have replaced one of its parents by a link.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading

from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds, require_space

from ..descriptors import closing_fd, open_below
from ..sandbox.roots import find_path_inside
from ..tree_removal import remove_tree
from .layer_streams import PullCancelled
from .layers import Layer
from .tars import BadArchive

_NO_LINK_ERRORS = frozenset({errno.EMLINK, errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RootBuilder:
    """Adds layers from the lowest up."""

    def __init__(self, root: str, marks: DiskThresholds, cancelled: threading.Event | None = None) -> None:
        self._root = root
        self._marks = marks
        self._cancelled = cancelled
        self._is_root = os.geteuid() == 0

    def add_layer(self, layer: Layer) -> None:
        require_space(self._root, 0, self._marks)
        folders = [("", self._root)]  # a folder in the layer, and where its content goes
        while folders:
            if self._cancelled is not None and self._cancelled.is_set():
                raise PullCancelled
            path, target = folders.pop()
            with closing_fd(self._open_target(target)) as fd:
                self._apply_whiteouts(layer, path, target)
                folders += self._add_folder(layer, path, target, fd)

    def _open_target(self, target: str) -> int:
        parts = [part for part in target.removeprefix(self._root).split("/") if part]
        try:
            return open_below(os.open(self._root, _FOLDER_FLAGS), parts, _FOLDER_FLAGS)
        except OSError as error:
            raise BadArchive(msg("A layer contains folders that replace each other.")) from error

    def _apply_whiteouts(self, layer: Layer, path: str, target: str) -> None:
        names = os.listdir(target) if path in layer.opaque else layer.whiteouts.get(path, ())
        for name in names:
            remove_tree(f"{target}/{name}")

    def _add_folder(self, layer: Layer, path: str, target: str, fd: int) -> list[tuple[str, str]]:
        """Add the files of one folder, and return the folders in it."""
        source = f"{layer.tree}/{path}" if path else layer.tree
        below = []
        with os.scandir(source) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner = f"{path}/{entry.name}" if path else entry.name
                    folder = self._create_folder(f"{target}/{entry.name}", entry, is_implied=inner in layer.implied)
                    below.append((inner, folder))
                else:
                    self._add_file(entry, f"{target}/{entry.name}", fd)
        return below

    def _create_folder(self, target: str, entry: os.DirEntry[str], *, is_implied: bool) -> str:
        """Return the folder of the root for one of the layer."""
        kind = _read_kind(target)
        if kind == stat.S_IFLNK and is_implied:
            found = find_path_inside(self._root, target.removeprefix(self._root))
            if found is not None and _read_kind(str(found)) == stat.S_IFDIR:
                return str(found)
        if kind != stat.S_IFDIR:
            remove_tree(target)
            os.mkdir(target, 0o755)
        elif is_implied:
            return target
        found_stat = entry.stat(follow_symlinks=False)
        if self._is_root:
            os.chown(target, found_stat.st_uid, found_stat.st_gid)
        os.chmod(target, stat.S_IMODE(found_stat.st_mode))
        return target

    def _add_file(self, entry: os.DirEntry[str], target: str, fd: int) -> None:
        try:
            try:
                os.link(entry.path, entry.name, dst_dir_fd=fd, follow_symlinks=False)
            except FileExistsError:
                remove_tree(target)
                os.link(entry.path, entry.name, dst_dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINK_ERRORS:
                raise
            remove_tree(target)
            self._copy_file(entry, target)

    def _copy_file(self, entry: os.DirEntry[str], target: str) -> None:
        """Copy a file with its metadata: it has too many links, or the filesystem supports none."""
        found = entry.stat(follow_symlinks=False)
        require_space(self._root, found.st_size, self._marks)
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(entry.path), target)
        elif stat.S_ISFIFO(found.st_mode):
            os.mkfifo(target, 0o600)
        else:
            shutil.copyfile(entry.path, target, follow_symlinks=False)
        if self._is_root:
            os.lchown(target, found.st_uid, found.st_gid)
        if not stat.S_ISLNK(found.st_mode):
            os.chmod(target, stat.S_IMODE(found.st_mode))
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def _read_kind(path: str) -> int:
    """Return the type of a file as in its mode; 0 if there is none."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return 0
