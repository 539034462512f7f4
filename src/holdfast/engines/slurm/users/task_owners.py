"""Whose tasks run as which Unix users. The uids are remembered in the engine's folder: jobs are looked up by them."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

from .unix_user import UnixUser, check_unix_user, find_unix_user

USER_MODE = "user"  # of the setting slurm.run_as
_USERS_FOLDER = "users"  # a file for each uid, with the name of the user
_TASKS_FOLDER = "owners"  # a link for each task, which says its uid: also when the task's files were deleted


class TaskOwners:
    def __init__(self, run_as: str, home: Path) -> None:
        self.is_enabled = run_as == USER_MODE
        self._folder = home / _USERS_FOLDER
        self._tasks = home / _TASKS_FOLDER
        self._uids: set[int] = set()
        self._names: dict[str, int] = {}  # uids by the names of users whose tasks have run

    def load(self) -> None:
        """Blocking."""
        with suppress(FileNotFoundError):
            for entry in os.listdir(self._folder):
                if entry.isascii() and entry.isdigit():
                    self._uids.add(int(entry))
                    if name := (self._folder / entry).read_text().strip():
                        self._names[name] = int(entry)

    def find_user(self, name: str) -> UnixUser | None:
        """Return the Unix user of a Holdfast user; None if all tasks run as the server's user. StartRefused if it has
        none. Blocking."""
        if not self.is_enabled:
            return None
        user = find_unix_user(name)
        if user.uid not in self._uids:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            (self._folder / str(user.uid)).write_text(f"{user.name}\n")
            self._uids.add(user.uid)
        self._names[user.name] = user.uid
        return user

    def check_owner(self, user: UnixUser | None) -> None:
        """Raise StartRefused if nothing new may run as the user of an earlier task. Blocking."""
        if user is not None:
            check_unix_user(user)

    def record_task(self, attempt_id: str, user: UnixUser) -> None:
        """Record whose job it is, before it is submitted. Blocking."""
        self._tasks.mkdir(mode=0o700, exist_ok=True)
        path = self._tasks / attempt_id
        with suppress(FileNotFoundError):
            path.unlink()
        path.symlink_to(str(user.uid))

    def find_task_uid(self, attempt_id: str) -> int:
        """Return whose job it is, by what was recorded: any user can submit a job with any name. Blocking."""
        try:
            return int(os.readlink(self._tasks / attempt_id))
        except (OSError, ValueError):
            return os.geteuid()

    def forget_task(self, attempt_id: str) -> None:
        """Blocking."""
        with suppress(OSError):
            (self._tasks / attempt_id).unlink()

    def note_uid(self, uid: int) -> None:
        """Look up the jobs of this user, too: another server of the installation may have started its tasks."""
        self._uids.add(uid)

    def list_users(self) -> dict[str, int]:
        """Return the uids of the users whose tasks have run, by their names."""
        return dict(sorted(self._names.items()))

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
