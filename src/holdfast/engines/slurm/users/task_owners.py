"""Whose tasks run as which Unix users. The uids are remembered in the engine's folder: jobs are looked up by them."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

from .unix_user import UnixUser, find_unix_user

USER_MODE = "user"  # of the setting slurm.run_as
_USERS_FOLDER = "users"  # an empty file for each uid


class TaskOwners:
    def __init__(self, run_as: str, home: Path) -> None:
        self.is_enabled = run_as == USER_MODE
        self._folder = home / _USERS_FOLDER
        self._uids: set[int] = set()

    def load(self) -> None:
        """Blocking."""
        with suppress(FileNotFoundError):
            self._uids |= {int(name) for name in os.listdir(self._folder) if name.isascii() and name.isdigit()}

    def find_user(self, name: str) -> UnixUser | None:
        """Return the Unix user of a Holdfast user; None if all tasks run as the server's user. StartRefused if it has
        none. Blocking."""
        if not self.is_enabled:
            return None
        user = find_unix_user(name)
        if user.uid not in self._uids:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            (self._folder / str(user.uid)).touch(mode=0o600)
            self._uids.add(user.uid)
        return user

    def note_uid(self, uid: int) -> None:
        """Look up the jobs of this user, too: another server of the installation may have started its tasks."""
        self._uids.add(uid)

    def find_by_uid(self, uid: int) -> UnixUser | None:
        """Return one of the users that tasks have run as; None if it is the server's, or unknown."""
        if uid not in self._uids or uid == os.geteuid():
            return None
        try:
            found = pwd.getpwuid(uid)
        except KeyError:
            return None
        return UnixUser(found.pw_name, found.pw_uid, found.pw_gid)

    def list_uids(self) -> tuple[int, ...]:
        """Return the uids of all jobs of this installation; empty: only the server's own."""
        return tuple(sorted({*self._uids, os.geteuid()})) if self._uids else ()
