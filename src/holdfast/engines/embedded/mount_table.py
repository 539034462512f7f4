"""The kernel's mount table, /proc/self/mountinfo. Blocking, and safe from any thread."""

from __future__ import annotations

import os
import re
import select
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

MOUNTINFO = "/proc/self/mountinfo"
# Filesystems of this machine's disks.
REAL_FILESYSTEMS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "squashfs", "erofs"})
_ALWAYS_ANSWERING = REAL_FILESYSTEMS | {"tmpfs", "ramfs"}  # no server behind them that could be down
_ESCAPE = re.compile(rb"\\([0-7]{3})")
_READ_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class Mount:
    id: int
    parent: int
    root: str  # which part of the filesystem is mounted
    point: str
    kind: str  # of filesystem
    options: tuple[str, ...]  # of the filesystem, such as the controllers of a control group
    device: str = ""  # its numbers: an id is given again to the next mount


def parse_mounts(data: bytes) -> tuple[Mount, ...]:
    """The mounts in the order of the table; lines of an unknown form are left out."""
    found = []
    for line in data.splitlines():
        left, _, right = line.partition(b" - ")
        fields, more = left.split(b" "), right.split(b" ", 2)
        with suppress(IndexError, ValueError):
            options = tuple(os.fsdecode(more[2]).split(",")) if len(more) > 2 else ()
            root, point, kind, device = map(_text, (fields[3], fields[4], more[0], fields[2]))
            found.append(Mount(int(fields[0]), int(fields[1]), root, point, kind, options, device))
    return tuple(found)


def _text(field: bytes) -> str:
    """Spaces and the like are written as octal numbers; everything else is as it is."""
    return os.fsdecode(_ESCAPE.sub(lambda octal: bytes([int(octal[1], 8) & 0xFF]), field))


def is_folder(mount: Mount) -> bool | None:
    """Whether a folder is mounted there; None for a mount that is gone by now. Where a look might never return, it is
    taken for one."""
    if mount.kind not in _ALWAYS_ANSWERING:
        return True
    try:
        return stat.S_ISDIR(os.lstat(mount.point).st_mode)
    except OSError:
        return None


def top_mounts(mounts: Iterable[Mount]) -> dict[str, Mount]:
    """Each mount point, outermost first, with the mount that lies on top there."""
    by_point: dict[str, list[Mount]] = {}
    for mount in mounts:
        by_point.setdefault(mount.point, []).append(mount)
    return {point: _top(stack) for point, stack in sorted(by_point.items())}


def _top(stack: list[Mount]) -> Mount:
    """The one on which nothing else at the same point is mounted."""
    below = {mount.parent for mount in stack}
    return next((mount for mount in reversed(stack) if mount.id not in below), stack[-1])


class MountTable:
    """The mount table as it is now. Reads it again only after the kernel has reported a change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mounts: tuple[Mount, ...] = ()
        self._fd = os.open(MOUNTINFO, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)
        self._is_read = False

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._fd)

    def read(self) -> tuple[Mount, ...]:
        with self._lock:
            changed = bool(self._poll.poll(0))  # first: a change while we read is reported the next time
            if changed or not self._is_read:
                self._is_read = False
                self._mounts = parse_mounts(self._read_all())
                self._is_read = True
            return self._mounts

    def _read_all(self) -> bytes:
        os.lseek(self._fd, 0, os.SEEK_SET)
        parts = []
        while part := os.read(self._fd, _READ_SIZE):
            parts.append(part)
        return b"".join(parts)
