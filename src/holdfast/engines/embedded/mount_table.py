"""The kernel's mount table, /proc/self/mountinfo. Blocking, thread-safe."""

from __future__ import annotations

import os
import re
import select
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

MOUNTINFO_PATH = "/proc/self/mountinfo"
# Filesystems of this machine's disks.
DISK_FILESYSTEMS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "squashfs", "erofs"})
_LOCAL_FILESYSTEMS = DISK_FILESYSTEMS | {"tmpfs", "ramfs"}  # no remote server that could be down
_ESCAPE_PATTERN = re.compile(rb"\\([0-7]{3})")
_READ_SIZE = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Mount:
    id: int
    parent: int
    root: str  # the mounted part of the filesystem
    point: str
    kind: str  # of filesystem
    options: tuple[str, ...]  # of the filesystem, such as the controllers of a cgroup
    device: str = ""  # its device numbers: a mount id is reused


def parse_mounts(data: bytes) -> tuple[Mount, ...]:
    """Return the mounts in the order of the table, without lines of an unknown format."""
    found = []
    for line in data.splitlines():
        left, _, right = line.partition(b" - ")
        fields, more = left.split(b" "), right.split(b" ", 2)
        with suppress(IndexError, ValueError):
            options = tuple(os.fsdecode(more[2]).split(",")) if len(more) > 2 else ()
            root, point, kind, device = map(_unescape_field, (fields[3], fields[4], more[0], fields[2]))
            found.append(Mount(int(fields[0]), int(fields[1]), root, point, kind, options, device))
    return tuple(found)


def _unescape_field(field: bytes) -> str:
    """Decode octal escapes, such as those of spaces."""
    return os.fsdecode(_ESCAPE_PATTERN.sub(lambda octal: bytes([int(octal[1], 8) & 0xFF]), field))


def is_folder_mount(mount: Mount) -> bool | None:
    """None if the mount has disappeared. Assumes a folder where a check might block for ever."""
    if mount.kind not in _LOCAL_FILESYSTEMS:
        return True
    try:
        return stat.S_ISDIR(os.lstat(mount.point).st_mode)
    except OSError:
        return None


def find_top_mounts(mounts: Iterable[Mount]) -> dict[str, Mount]:
    """Return each mount point, outermost first, with the topmost mount there."""
    by_point: dict[str, list[Mount]] = {}
    for mount in mounts:
        by_point.setdefault(mount.point, []).append(mount)
    return {point: _find_top_mount(stack) for point, stack in sorted(by_point.items())}


def _find_top_mount(stack: list[Mount]) -> Mount:
    """Return the one that no other mount at the same point covers."""
    below = {mount.parent for mount in stack}
    return next((mount for mount in reversed(stack) if mount.id not in below), stack[-1])


class MountTable:
    """The current mount table. Reads it again only after the kernel has reported a change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mounts: tuple[Mount, ...] = ()
        self._fd = os.open(MOUNTINFO_PATH, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)
        self._is_read = False

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._fd)

    def read_mounts(self) -> tuple[Mount, ...]:
        with self._lock:
            changed = bool(self._poll.poll(0))  # first: a change during the read is reported next time
            if changed or not self._is_read:
                self._is_read = False
                self._mounts = parse_mounts(self._read_table())
                self._is_read = True
            return self._mounts

    def _read_table(self) -> bytes:
        os.lseek(self._fd, 0, os.SEEK_SET)
        parts = []
        while part := os.read(self._fd, _READ_SIZE):
            parts.append(part)
        return b"".join(parts)
