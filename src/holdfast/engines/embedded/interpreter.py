"""The Python that helpers run on when they go into tasks: a copy in memory that no task can change. Blocking.

A task can have such a helper run the very program it was started from once more (by a shell that names /proc/self/exe
as its interpreter), and reaches that file then. As the same user it could write to it, and with it to what the server
runs next. So it meets a sealed copy; and where it has changed even the mode of that, the next helper gets a new one.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from contextlib import suppress

from .bubblewrap import is_exposed
from .render import PATH

_MFD_EXEC = 0x10  # asked for where the machine makes such files unfit to run otherwise; unknown to older kernels
_SEAL_EXEC = 0x20  # of newer kernels: nor may its mode change
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK


class Interpreter:
    def __init__(self) -> None:
        self._real = os.path.realpath(sys.executable)
        self._copied = is_exposed(self._real)
        self._lock = threading.Lock()
        self._fd = -1
        self._made = 0  # when it was last changed, by us

    @property
    def env(self) -> dict[str, str]:
        """A copy would look for its libraries beside itself."""
        libraries = os.path.join(os.path.dirname(os.path.dirname(self._real)), "lib")
        return {"PATH": PATH, "LD_LIBRARY_PATH": libraries} if self._copied else {"PATH": PATH}

    def open(self) -> int:
        """A descriptor of the program, for the caller to close."""
        if not self._copied:
            return os.open(self._real, os.O_RDONLY | os.O_CLOEXEC)
        with self._lock:
            if self._fd < 0 or os.fstat(self._fd).st_ctime_ns != self._made:
                self._let_go()
                self._fd = _sealed_copy(self._real)
                self._made = os.fstat(self._fd).st_ctime_ns
            return fcntl.fcntl(self._fd, fcntl.F_DUPFD_CLOEXEC, 100)

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _sealed_copy(path: str) -> int:
    writer = _memory_file()
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
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("python", flags | _MFD_EXEC)
    except OSError:
        return os.memfd_create("python", flags)
