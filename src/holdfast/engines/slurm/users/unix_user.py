"""The Unix user of a task: the one with the name of the Holdfast user. Blocking: it may ask a directory service."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass

from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.engines.start_refusal import StartRefused

_NAME = "[A-Za-z_][A-Za-z0-9._-]{0,63}"
_NAME_PATTERN = re.compile(_NAME)
_OWNER_PATTERN = re.compile(rf"({_NAME}) ([0-9]{{1,10}}) ([0-9]{{1,10}})\n")
_FIRST_UID = 1000  # of ordinary users, unless login.defs says otherwise
_SERVICE_UIDS = range(61184, 65536)  # of systemd's dynamic users, of Debian's package of Slurm, and `nobody`
_LAST_UID = 2**31 - 1  # above it, 2^32 - 1 means none, and 2^32 - 2 is `nobody` elsewhere
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
    if not _NAME_PATTERN.fullmatch(name):
        raise _refuse(
            msg(
                "Tasks of {name} cannot run in Slurm: the name is not a Unix user name. Use an account whose name is "
                "that of a Unix user.",
                name=repr(name),
            )
        )
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        found = None
    if found is None or found.pw_name != name:  # a directory service may ignore the case of letters
        raise _refuse(
            msg(
                "Tasks of {name} cannot run in Slurm: the server's machine has no Unix user {name}. Ask an admin to "
                "create it there and on all nodes, with the same uid.",
                name=name,
            )
        )
    if not read_first_uid() <= found.pw_uid <= _LAST_UID or found.pw_uid in _SERVICE_UIDS:
        raise _refuse(
            msg(
                "Tasks cannot run as the Unix user {name}: it is a system user. Use an account with the name of an "
                "ordinary user.",
                name=name,
            )
        )
    if found.pw_uid == os.geteuid():  # it can read the files of all tasks
        raise _refuse(
            msg(
                "Tasks cannot run as the Unix user {name}: the server runs as this user. Use an account with another "
                "name.",
                name=name,
            )
        )
    return UnixUser(found.pw_name, found.pw_uid, found.pw_gid)


def check_unix_user(user: UnixUser) -> None:
    """Raise StartRefused unless the name still means the same user. Another person may have got the name or the uid."""
    if find_unix_user(user.name).uid != user.uid:
        raise _refuse(
            msg(
                "The Unix user {name} no longer has the uid {uid}, which the task ran as. Start the job again.",
                name=user.name,
                uid=user.uid,
            )
        )


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
