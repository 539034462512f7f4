"""Opens a folder of this machine by the path that an ended task saw.

The task's own files are in its folder, in layers; its mounts are recorded. Links are resolved part by part within these
only, so none leads to files of the machine that the task did not see. Blocking: runs in a thread.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import PurePosixPath

from holdfast.core.messages import msg
from holdfast.engines.artifacts import ArtifactsUnavailable
from holdfast.engines.sandbox_paths import HOME_PATH

from ..descriptors import closing_fd, open_below
from ..folder_content import StartNote
from ..sandbox.mounts import InvalidMount, open_mount_source
from ..sandbox.roots import WRITABLE_FOLDERS
from ..task_folder import TaskFolder

_MAX_PARTS = 256  # in the whole path, links included
_MAX_LINKS = 40  # the kernel's limit
_PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

TaskPath = tuple[bytes, ...]  # parts of an absolute path inside the task


class TaskFiles:
    def __init__(self, folder: TaskFolder, note: StartNote) -> None:
        self.home = HOME_PATH if note.sandbox else folder["scratch"]
        self._layers = _find_layers(folder, sandbox=note.sandbox)
        self._mounts = {_split_path(target): source for target, source in folder.read_mounts()}

    def open_folder(self, path: str) -> int | None:
        """None if it does not exist. ArtifactsUnavailable if it is not a folder, or not among the task's own files."""
        place, links = self._resolve_links(_split_path(path))
        found = self._open_path(place)
        if found is None and not links:
            return None
        if found is None:
            raise ArtifactsUnavailable(msg("is a link to a folder outside the task"))
        try:
            if not stat.S_ISDIR(os.fstat(found).st_mode):
                raise ArtifactsUnavailable(msg("is not a folder"))
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=found)
        except OSError as error:
            raise ArtifactsUnavailable(msg("cannot be read: {error}", error=error.strerror)) from error
        finally:
            os.close(found)

    def _resolve_links(self, path: TaskPath) -> tuple[TaskPath, int]:
        """Resolve every link in the path; also return their number."""
        here: list[bytes] = []
        ahead = list(reversed(path))
        links = parts = 0
        while ahead:
            part = ahead.pop()
            parts += 1
            if part == b"..":
                here = here[:-1]
                continue
            target = self._read_link((*here, part)) if part not in (b"", b".") else None
            if target:
                links += 1
                here = [] if target.startswith(b"/") else here
                ahead += reversed(target.split(b"/"))
            elif part not in (b"", b"."):
                here.append(part)
            if links > _MAX_LINKS or parts > _MAX_PARTS:
                raise ArtifactsUnavailable(msg("has too many levels of symbolic links"))
        return tuple(here), links

    def _read_link(self, path: TaskPath) -> bytes | None:
        """Return the target of a link; empty for anything else, None if it does not exist."""
        if path in self._mounts or self._is_parent_of_layer(path):
            return b""
        fd = self._open_path(path)
        if fd is None:
            return None
        with suppress(OSError), closing_fd(fd):
            return os.readlink(b"", dir_fd=fd) if stat.S_ISLNK(os.fstat(fd).st_mode) else b""
        return None

    def _is_parent_of_layer(self, path: TaskPath) -> bool:
        """Return whether it is a parent of the task's own folder on the machine, without a sandbox."""
        return any(len(path) < len(layer) and layer[: len(path)] == path for layer in self._layers)

    def _open_path(self, path: TaskPath) -> int | None:
        """Return a descriptor of exactly this path, of any type, in the innermost layer that covers it."""
        for length in range(len(path), -1, -1):
            top = path[:length]
            if top in self._mounts or top in self._layers:
                return self._open_below(top, path[length:])
        return None

    def _open_below(self, top: TaskPath, rest: TaskPath) -> int | None:
        try:
            mount = self._mounts.get(top)
            fd = (
                open_mount_source(mount)
                if mount is not None
                else os.open(self._layers[top], _PATH_FLAGS | os.O_DIRECTORY)
            )
            return open_below(fd, rest, _PATH_FLAGS)
        except (OSError, ValueError, InvalidMount):  # a link in the path, too: links are resolved one by one
            return None


def _find_layers(folder: TaskFolder, *, sandbox: bool) -> dict[TaskPath, str]:
    """Map paths inside to the task's folders that contain them. They show how its root was built; see `roots`."""
    if not sandbox:
        return {_split_path(folder["scratch"]): folder["scratch"]}
    possible = {"/": ("upper", "root"), "/var/tmp": ("var-tmp",)}
    found = [(_split_path(target), folder[name]) for target, names in possible.items() for name in names]
    found.append((_split_path(f"{HOME_PATH}/artifacts"), folder["artifacts"]))  # of tasks with another home
    found += [(_split_path(path), folder[f"place{path.replace('/', '.')}"]) for path in WRITABLE_FOLDERS]
    return {target: source for target, source in found if os.path.isdir(source)}


def _split_path(path: str) -> TaskPath:
    return tuple(os.fsencode(part) for part in PurePosixPath(path).parts[1:])
