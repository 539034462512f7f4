"""The user of a task: what the image's configuration names, by the image's own user list. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.core.messages import msg

MAX_ID = 2**31 - 1  # as in container runtimes; -1 would mean "unchanged" to the kernel
MAX_LIST_SIZE = 1024 * 1024  # bytes read of a user or group list
_MAX_GROUPS = 128  # they are part of the start note, as is the home: a link, of 4095 bytes at most
_MAX_HOME_LENGTH = 512
_MAX_NAME_LENGTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUser:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()  # supplementary, and `gid`
    home: str = ""  # in the image's user list; empty: none


class UnknownUser(Exception):
    """The image's user list does not contain the user or group; the text says so, to the user."""


@dataclass(frozen=True, slots=True)
class _Account:
    name: str
    uid: int
    gid: int
    home: str


def is_root_user(user: str) -> bool:
    """Return whether the user of an image's configuration is root, so that no list is needed."""
    return user.partition(":")[0] in ("", "root", "0")


def resolve_user(user: str, passwd: bytes, group: bytes) -> TaskUser | None:
    """Return the user for `name`, `uid`, `name:group` or `uid:gid`, as container runtimes do. None: it is root.
    UnknownUser if a name is not in the lists; a number needs no entry."""
    if is_root_user(user):
        return None
    wanted, _, wanted_group = user.partition(":")
    account = _find_account(wanted, passwd)
    if account is None and not _is_id(wanted):
        raise UnknownUser(msg("the image runs as user {user}, who is not in its /etc/passwd", user=repr(wanted)))
    name, uid, gid, home = (
        (account.name, account.uid, account.gid, account.home) if account else (wanted, int(wanted), 0, "")
    )
    if uid == 0:
        return None
    groups = [] if wanted_group else list(_iter_group_ids(name, group)) if account else []
    if wanted_group:
        gid = _find_group(wanted_group, group)
    return TaskUser(name=name, uid=uid, gid=gid, groups=tuple(dict.fromkeys([gid, *groups]))[:_MAX_GROUPS], home=home)


def _find_account(wanted: str, passwd: bytes) -> _Account | None:
    """Return the first entry with this name, else with this number."""
    accounts = list(_iter_accounts(passwd))
    by_name = (account for account in accounts if account.name == wanted)
    by_id = (account for account in accounts if _is_id(wanted) and account.uid == int(wanted))
    return next(by_name, None) or next(by_id, None)


def _iter_accounts(passwd: bytes) -> Iterator[_Account]:
    for fields in _iter_lines(passwd):
        if len(fields) >= 6 and _is_id(fields[2]) and _is_id(fields[3]):
            home = fields[5] if _is_valid_home(fields[5]) else ""
            yield _Account(fields[0], int(fields[2]), int(fields[3]), home)


def _is_valid_home(home: str) -> bool:
    return home.startswith("/") and home.isprintable() and len(home) <= _MAX_HOME_LENGTH


def _find_group(wanted: str, group: bytes) -> int:
    for fields in _iter_lines(group):
        if len(fields) >= 3 and fields[0] == wanted and _is_id(fields[2]):
            return int(fields[2])
    if _is_id(wanted):
        return int(wanted)
    raise UnknownUser(msg("the image runs with group {group}, which is not in its /etc/group", group=repr(wanted)))


def _iter_group_ids(name: str, group: bytes) -> Iterator[int]:
    for fields in _iter_lines(group):
        if len(fields) >= 4 and _is_id(fields[2]) and name in fields[3].split(","):
            yield int(fields[2])


def _iter_lines(text: bytes) -> Iterator[list[str]]:
    for line in text.decode("utf-8", "replace").splitlines():
        fields = line.strip().split(":")
        if fields[0] and len(fields[0]) <= _MAX_NAME_LENGTH and fields[0].isprintable() and fields[0][0] not in "#+-":
            yield fields


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= MAX_ID
