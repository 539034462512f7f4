"""The folders of the engine that nodes write to, and who can use them. Blocking."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from .file_access import TRAVERSABLE_MODE

_PORTS_FOLDER = "ports"
_PORTS_MODE = 0o1733  # all users create files there, and delete only their own


def set_up_folders(home: Path, private: Sequence[str], *, has_users: bool) -> None:
    """Create them. `private`: names of those for the server's user only: other users could replace what is there.
    `has_users`: tasks run as other users. They reach their folders by name and reserve ports, but list neither."""
    for name in (_PORTS_FOLDER, *private):
        (home / name).mkdir(mode=0o700, exist_ok=True)
    if has_users:
        for path in (home, home / "tasks"):
            path.chmod(TRAVERSABLE_MODE)
        (home / _PORTS_FOLDER).chmod(_PORTS_MODE)


def open_path(path: str, home: str) -> None:
    """Let other users reach a folder within the engine's by its name. Those above it cannot be listed."""
    parent = os.path.dirname(path)
    while parent.startswith(f"{home}/"):
        if stat.S_IMODE(os.stat(parent).st_mode) != TRAVERSABLE_MODE:
            os.chmod(parent, TRAVERSABLE_MODE)
        parent = os.path.dirname(parent)
