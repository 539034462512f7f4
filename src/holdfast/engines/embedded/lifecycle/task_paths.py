"""A path as an ended task saw it -> an open folder on this machine.

The task's own files lie in its folder, in layers; what it mounted lies where its mounts were recorded. Links are read
part by part and looked up in these and nowhere else, so none leads to anything of the machine that the task did not
see. Blocking: runs in a thread.
"""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath

from holdfast.core.messages import msg
from holdfast.engines.base import ArtifactsUnavailable

from ..folder_content import StartNote
from ..sandbox.mounting import BadMount, open_source
from ..sandbox.roots import PLACES
from ..sandbox_paths import HOME
from ..task_folder import TaskFolder

_MAX_PARTS = 256  # on the way through all links
_MAX_LINKS = 40  # as the kernel has it
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

Place = tuple[bytes, ...]  # the parts of an absolute path inside


class Inside:
    def __init__(self, folder: TaskFolder, note: StartNote) -> None:
        self.home = HOME if note.sandbox else folder["scratch"]
        self._own = _layers(folder, sandbox=note.sandbox)
        self._mounts = {_place(target): source for target, source in folder.read_mounts()}

    def open_folder(self, path: str) -> int | None:
        """A descriptor to read the folder by; None when there is nothing of that name. OutOfReach when it is no folder,
        or lies where nothing is the task's own."""
        place, links = self._follow(_place(path))
        found = self._open(place)
        if found is None and not links:
            return None
        if found is None:
            raise ArtifactsUnavailable(msg("is a link that leads to no folder of the task's own"))
        try:
            if not stat.S_ISDIR(os.fstat(found).st_mode):
                raise ArtifactsUnavailable(msg("is not a folder"))
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=found)
        except OSError as error:
            raise ArtifactsUnavailable(msg("cannot be read: {strerror}", strerror=error.strerror)) from error
        finally:
            os.close(found)

    def _follow(self, path: Place) -> tuple[Place, int]:
        """Where it leads when every link on the way is followed, and how many there were."""
        here: list[bytes] = []
        ahead = list(reversed(path))
        links = parts = 0
        while ahead:
            part = ahead.pop()
            parts += 1
            if part == b"..":
                here = here[:-1]
                continue
            target = self._look((*here, part)) if part not in (b"", b".") else None
            if target:
                links += 1
                here = [] if target.startswith(b"/") else here
                ahead += reversed(target.split(b"/"))
            elif part not in (b"", b"."):
                here.append(part)
            if links > _MAX_LINKS or parts > _MAX_PARTS:
                raise ArtifactsUnavailable(msg("is a link that leads through too many others"))
        return tuple(here), links

    def _look(self, path: Place) -> bytes | None:
        """The target of a link; empty for anything else, None when there is nothing."""
        if path in self._mounts or self._is_above_own(path):
            return b""
        fd = self._open(path)
        if fd is None:
            return None
        try:
            return os.readlink(b"", dir_fd=fd) if stat.S_ISLNK(os.fstat(fd).st_mode) else b""
        except OSError:
            return None
        finally:
            os.close(fd)

    def _is_above_own(self, path: Place) -> bool:
        """Without a sandbox: the machine's folders on the way to the task's own, which no task has made."""
        return any(len(path) < len(layer) and layer[: len(path)] == path for layer in self._own)

    def _open(self, path: Place) -> int | None:
        """A descriptor of exactly this place, whatever it is, in the innermost layer that covers it."""
        for length in range(len(path), -1, -1):
            top = path[:length]
            if top in self._mounts or top in self._own:
                return self._open_below(top, path[length:])
        return None

    def _open_below(self, top: Place, rest: Place) -> int | None:
        try:
            mount = self._mounts.get(top)
            fd = open_source(mount) if mount is not None else os.open(self._own[top], _LOOK | os.O_DIRECTORY)
        except (OSError, BadMount):
            return None
        for part in rest:
            try:
                below = os.open(part, _LOOK, dir_fd=fd)
            except (OSError, ValueError):  # a link on the way, too: those are followed one by one
                return None
            finally:
                os.close(fd)
            fd = below
        return fd


def _layers(folder: TaskFolder, *, sandbox: bool) -> dict[Place, str]:
    """Where inside -> which folder of the task's holds it. Which there are says how its root was made; see `roots`."""
    if not sandbox:
        return {_place(folder["scratch"]): folder["scratch"]}
    possible = {"/": ("upper", "root"), "/var/tmp": ("var-tmp",)}
    found = [(_place(target), folder[name]) for target, names in possible.items() for name in names]
    found += [(_place(path), folder[f"place{path.replace('/', '.')}"]) for path in PLACES]
    return {target: source for target, source in found if os.path.isdir(source)}


def _place(path: str) -> Place:
    return tuple(os.fsencode(part) for part in PurePosixPath(path).parts[1:])
