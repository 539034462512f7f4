"""A program in memory that no task can change, for what we run inside tasks. Blocking.

Where a task has changed even the mode of such a copy, the next to run it gets a new one.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress

_MFD_EXEC = 0x10  # asked for where the machine makes such files unfit to run otherwise; unknown to older kernels
_SEAL_EXEC = 0x20  # of newer kernels: nor may its mode change
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
_HIGH = 100  # out of the way of the numbers that descriptors get in what we start


class SealedCopy:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._fd = -1
        self._made = 0  # when it was last changed, by us

    def open(self) -> int:
        """A descriptor of it, for the caller to close."""
        with self._lock:
            if self._fd < 0 or os.fstat(self._fd).st_ctime_ns != self._made:
                self._let_go()
                self._fd = make_sealed_copy(self._path)
                self._made = os.fstat(self._fd).st_ctime_ns
            return fcntl.fcntl(self._fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def make_sealed_copy(path: str) -> int:
    """A descriptor of a new copy, for the caller to close; above all numbers that descriptors get in what we start."""
    writer = _memory_file(os.path.basename(path))
    try:
        reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while os.sendfile(writer, reader, None, 1 << 30):
                pass
        finally:
            os.close(reader)
        os.fchmod(writer, 0o500)
        with suppress(OSError):
            fcntl.fcntl(writer, fcntl.F_ADD_SEALS, _SEAL_EXEC)
        fcntl.fcntl(writer, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
        fcntl.flock(writer, fcntl.LOCK_EX)
        fd = os.open(f"/proc/self/fd/{writer}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writer)
    # What is open for writing cannot be run, and a program just being started from another thread has all our
    # descriptors for a moment. The lock goes with the last of them.
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    finally:
        os.close(fd)


def _memory_file(name: str) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_EXEC)
    except OSError:
        return os.memfd_create(name, flags)
