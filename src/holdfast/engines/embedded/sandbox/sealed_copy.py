"""Sealed copies of programs in memory that no task can change, for what we run inside tasks. Blocking.

If a task has changed the mode of a copy, the next run gets a new one.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress

from ..descriptors import closing_fd

_MFD_EXEC = 0x10  # needed where the machine makes such files non-executable by default; unknown to older kernels
_SEAL_EXEC = 0x20  # of newer kernels: its mode cannot change either
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
_MIN_FD = 100  # above the descriptor numbers of our child processes


class SealedCopy:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._fd = -1
        self._created_ns = 0  # its change time when we created it

    def open_descriptor(self) -> int:
        """Return a descriptor of it, for the caller to close."""
        with self._lock:
            if self._fd < 0 or os.fstat(self._fd).st_ctime_ns != self._created_ns:
                self._close_copy()
                self._fd = create_sealed_copy(self._path)
                self._created_ns = os.fstat(self._fd).st_ctime_ns
            return fcntl.fcntl(self._fd, fcntl.F_DUPFD_CLOEXEC, _MIN_FD)

    def close(self) -> None:
        with self._lock:
            self._close_copy()

    def _close_copy(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def create_sealed_copy(path: str) -> int:
    """The caller closes the descriptor, which is above the descriptor numbers of our child processes."""
    with closing_fd(_create_memory_file(os.path.basename(path))) as writer:
        with closing_fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as reader:
            while os.sendfile(writer, reader, None, 1 << 30):
                pass
        os.fchmod(writer, 0o500)
        with suppress(OSError):
            fcntl.fcntl(writer, fcntl.F_ADD_SEALS, _SEAL_EXEC)
        fcntl.fcntl(writer, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
        fcntl.flock(writer, fcntl.LOCK_EX)
        fd = os.open(f"/proc/self/fd/{writer}", os.O_RDONLY | os.O_CLOEXEC)
    # A file open for writing cannot be executed, and a program that another thread is starting briefly has all our
    # descriptors. The lock is released with the last of them.
    with closing_fd(fd):
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _MIN_FD)


def _create_memory_file(name: str) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_EXEC)
    except OSError:
        return os.memfd_create(name, flags)
