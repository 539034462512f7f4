"""Calls of the C library that Python does not offer: holes in files, and notice of changes."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

_libc = ctypes.CDLL(None, use_errno=True)

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02

_IN_MODIFY = 0x02
_EVENT = struct.Struct("iIII")


def punch_hole(path: str, end: int) -> bool:
    """Give the bytes before `end` back to the disk; offsets stay. False where the filesystem cannot."""
    fallocate = getattr(_libc, "fallocate64", None) or getattr(_libc, "fallocate", None)
    if fallocate is None:
        return False
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        mode = _PUNCH_HOLE | _KEEP_SIZE
        return bool(fallocate(fd, mode, ctypes.c_int64(0), ctypes.c_int64(end)) == 0)
    finally:
        os.close(fd)


class Notice:
    """The kernel's notice that files in watched folders grew (inotify)."""

    def __init__(self) -> None:
        self.fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "no file notifications left")

    def watch(self, folder: str) -> int | None:
        """A number that later notices carry; None when there are no watches left."""
        number: int = _libc.inotify_add_watch(self.fd, os.fsencode(folder), _IN_MODIFY)
        return number if number >= 0 else None

    def unwatch(self, number: int) -> None:
        _libc.inotify_rm_watch(self.fd, number)

    def read(self) -> Iterator[int]:
        """The numbers of folders in which something was written; -1 when some notices were dropped."""
        try:
            data = os.read(self.fd, 64 * 1024)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            number, _mask, _cookie, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size + length
            yield number

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def close(self) -> None:
        os.close(self.fd)
        self.fd = -1
