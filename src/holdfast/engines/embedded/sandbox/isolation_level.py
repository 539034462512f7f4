"""The level of isolation that tasks must have, and the record of what this state folder has reached. Blocking.

A server that has isolated tasks once never runs one with less by itself: an error at the next start, which a job may
have arranged, must not open the machine. Only the setting `sandbox.isolation` lowers the level.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.messages import msg
from holdfast.engines.base import Isolation

_RANKS = {Isolation.NONE: 0, Isolation.READ_ONLY: 1, Isolation.FULL: 2}
_FILE = "isolation"
_SECCOMP = "seccomp"
_DEVICES = "devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    isolation: Isolation = Isolation.NONE
    seccomp: bool = False  # system calls are filtered
    own_devices: bool = False  # tasks of root have device files of their own

    def missing(self, required: Level) -> list[str]:
        """What this level lacks of the required one, in words."""
        return list(self._missing(required))

    def _missing(self, required: Level) -> Iterator[str]:
        if _RANKS[self.isolation] < _RANKS[required.isolation]:
            yield msg(
                "isolation {isolation}, {isolation2} is possible",
                isolation=required.isolation,
                isolation2=self.isolation,
            )
        if required.seccomp and not self.seccomp:
            yield msg("the system call filter")
        if required.own_devices and not self.own_devices:
            yield msg("separate device files")

    def merge(self, other: Level) -> Level:
        """The least level that lacks nothing of either."""
        return Level(
            isolation=max(self.isolation, other.isolation, key=_RANKS.__getitem__),
            seccomp=self.seccomp or other.seccomp,
            own_devices=self.own_devices or other.own_devices,
        )


def best_isolation() -> Isolation:
    """What this user can have on a machine that allows everything."""
    return Isolation.FULL if os.geteuid() == 0 else Isolation.READ_ONLY


def find_required_level(home: Path, setting: str, *, several_users: bool) -> Level:
    """The level below which no task may start: the admin's word, else what was reached before."""
    if setting == "off":
        return Level()
    if setting == Isolation.READ_ONLY:
        return Level(isolation=Isolation.READ_ONLY)
    least = Isolation.FULL if setting == Isolation.FULL else Isolation.READ_ONLY if several_users else Isolation.NONE
    return Level(isolation=least).merge(read_record(home))


def read_record(home: Path) -> Level:
    """The best level that was reached here. OSError when that cannot be found out; what is damaged counts as best."""
    try:
        text = os.readlink(home / _FILE)
    except FileNotFoundError:
        return Level()
    isolation, *parts = text.split("+")
    if isolation not in set(Isolation):
        return Level(isolation=best_isolation(), seccomp=True)
    return Level(isolation=Isolation(isolation), seccomp=_SECCOMP in parts, own_devices=_DEVICES in parts)


def raise_record(home: Path, level: Level) -> None:
    """Make sure that the record says at least this much; never lowers it. A link and not a file: it is there whole or
    not at all, and takes no block on a full disk."""
    known = read_record(home)
    wanted = known.merge(level) if level.isolation is not Isolation.NONE else known
    if wanted == known:
        return
    features = ((_SECCOMP, wanted.seccomp), (_DEVICES, wanted.own_devices))
    parts = [wanted.isolation.value, *(name for name, present in features if present)]
    draft = home / f"{_FILE}.{os.getpid()}"
    with suppress(FileNotFoundError):
        draft.unlink()
    draft.symlink_to("+".join(parts))
    draft.replace(home / _FILE)
    _sync_folder(home)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
