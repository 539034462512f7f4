"""The Unix user of a task: the one with the name of the Holdfast user. Blocking: it may ask a directory service."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass

from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.engines.start_refusal import StartRefused

_NAME_PATTERN = re.compile(r"[a-z_][a-z0-9_-]{0,31}\Z")
_OWNER_PATTERN = re.compile(r"([a-z_][a-z0-9_-]{0,31}) ([0-9]{1,10}) ([0-9]{1,10})\n")
_FIRST_UID = 1000  # of ordinary users, unless login.defs says otherwise
_NOBODY_UIDS = frozenset({65534, 2**32 - 2})
_LOGIN_DEFS = "/etc/login.defs"


@dataclass(frozen=True, slots=True)
class UnixUser:
    name: str
    uid: int
    gid: int

    def to_text(self) -> str:
        return f"{self.name} {self.uid} {self.gid}\n"


def parse_owner(text: str) -> UnixUser | None:
    found = _OWNER_PATTERN.fullmatch(text)
    return UnixUser(found[1], int(found[2]), int(found[3])) if found else None


def find_unix_user(name: str) -> UnixUser:
    """Return the user that tasks of this Holdfast user run as. StartRefused if there is none, or it is not allowed."""
    if not _NAME_PATTERN.match(name):
        raise _refuse(msg("Tasks of {name} cannot run in Slurm: the name is not a Unix user name.", name=repr(name)))
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise _refuse(
            msg("Tasks of {name} cannot run in Slurm: the server's machine has no Unix user {name}.", name=name)
        ) from None
    if found.pw_uid < read_first_uid() or found.pw_uid in _NOBODY_UIDS:
        raise _refuse(msg("Tasks cannot run as the Unix user {name}: it is a system user.", name=name))
    if found.pw_uid == os.geteuid():  # it can read the files of all tasks
        raise _refuse(msg("Tasks cannot run as the Unix user {name}: the server runs as this user.", name=name))
    return UnixUser(found.pw_name, found.pw_uid, found.pw_gid)


def _refuse(text: str) -> StartRefused:
    return StartRefused(text, cause=Cause.NOT_ALLOWED)


def read_first_uid(path: str = _LOGIN_DEFS) -> int:
    """Return the first uid of ordinary users: never below 1, whatever the file says."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(r"^\s*UID_MIN\s+([0-9]{1,9})\s*$", file.read(1 << 20), re.MULTILINE)
    except OSError:
        found = None
    return max(1, int(found[1])) if found else _FIRST_UID
