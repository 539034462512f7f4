"""The required isolation level of tasks, and the record of the level that this state folder has reached. Blocking.

A server that has isolated tasks once never runs one with less by itself: an error at the next start, which a job may
have caused, must not expose the machine. Only the setting `sandbox.isolation` lowers the level.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.messages import msg
from holdfast.engines.base import Isolation

from ..descriptors import closing_fd

_ISOLATION_RANKS = {Isolation.NONE: 0, Isolation.READ_ONLY: 1, Isolation.FULL: 2}
_RECORD_FILE = "isolation"
_SECCOMP_FEATURE = "seccomp"
_DEVICES_FEATURE = "devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationLevel:
    isolation: Isolation = Isolation.NONE
    seccomp: bool = False  # system calls are filtered
    own_devices: bool = False  # tasks of root have their own device files

    def describe_missing(self, required: IsolationLevel) -> list[str]:
        return list(self._iter_missing_features(required))

    def _iter_missing_features(self, required: IsolationLevel) -> Iterator[str]:
        if _ISOLATION_RANKS[self.isolation] < _ISOLATION_RANKS[required.isolation]:
            yield msg(
                "isolation {isolation} (available: {available})", isolation=required.isolation, available=self.isolation
            )
        if required.seccomp and not self.seccomp:
            yield msg("the system call filter")
        if required.own_devices and not self.own_devices:
            yield msg("separate device files")

    def merge(self, other: IsolationLevel) -> IsolationLevel:
        """Return the lowest level that satisfies both."""
        return IsolationLevel(
            isolation=max(self.isolation, other.isolation, key=_ISOLATION_RANKS.__getitem__),
            seccomp=self.seccomp or other.seccomp,
            own_devices=self.own_devices or other.own_devices,
        )


def get_best_isolation() -> Isolation:
    """Return the best level for this user on a machine without restrictions."""
    return Isolation.FULL if os.geteuid() == 0 else Isolation.READ_ONLY


def find_required_level(home: Path, setting: str, *, several_users: bool) -> IsolationLevel:
    """Return the minimum level of tasks: the admin's setting, else the recorded level."""
    if setting == "off":
        return IsolationLevel()
    if setting == Isolation.READ_ONLY:
        return IsolationLevel(isolation=Isolation.READ_ONLY)
    least = Isolation.FULL if setting == Isolation.FULL else Isolation.READ_ONLY if several_users else Isolation.NONE
    return IsolationLevel(isolation=least).merge(read_recorded_level(home))


def read_recorded_level(home: Path) -> IsolationLevel:
    """Return the best level reached before. OSError if it cannot be read; a damaged record counts as the best."""
    try:
        text = os.readlink(home / _RECORD_FILE)
    except FileNotFoundError:
        return IsolationLevel()
    isolation, *parts = text.split("+")
    if isolation not in set(Isolation):
        return IsolationLevel(isolation=get_best_isolation(), seccomp=True)
    return IsolationLevel(
        isolation=Isolation(isolation), seccomp=_SECCOMP_FEATURE in parts, own_devices=_DEVICES_FEATURE in parts
    )


def raise_recorded_level(home: Path, level: IsolationLevel) -> None:
    """Never lower it. A link instead of a file: it is written atomically, and needs no block on a full disk."""
    known = read_recorded_level(home)
    wanted = known.merge(level) if level.isolation is not Isolation.NONE else known
    if wanted == known:
        return
    features = ((_SECCOMP_FEATURE, wanted.seccomp), (_DEVICES_FEATURE, wanted.own_devices))
    parts = [wanted.isolation.value, *(name for name, present in features if present)]
    draft = home / f"{_RECORD_FILE}.{os.getpid()}"
    with suppress(FileNotFoundError):
        draft.unlink()
    draft.symlink_to("+".join(parts))
    draft.replace(home / _RECORD_FILE)
    with closing_fd(os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
        os.fsync(folder)
