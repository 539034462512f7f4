"""Takes the kernel's wait for joining a control group out of a task's start.

Before a process may change its group, the kernel waits for an RCU grace period, 5 to 20 ms, unless another process
changed its group a moment ago. So while a task is being prepared, the server writes its own pid to its own group. That
moves nothing, and the wait is over when the task joins its groups.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

MIN_INTERVAL = 0.003  # seconds: shorter than any grace period
_OWN_GROUPS = Path("/proc/self/cgroup")


class JoinWarmup:
    def __init__(self, find_own_procs: Callable[[], str | None]) -> None:
        """`find_own_procs` returns the cgroup.procs file of a group that this process is in; None: there is none."""
        self._find_own_procs = find_own_procs
        self._own_groups = ""  # when its file was looked for
        self._procs_file: str | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="join-warmup")
        self._last: Future[None] | None = None
        self._next = 0.0  # monotonic

    def begin(self) -> None:
        """Start the wait, unless one is under way or was started a moment ago. Never fails."""
        now = time.monotonic()
        if now >= self._next and (self._last is None or self._last.done()):
            self._next = now + MIN_INTERVAL
            with suppress(RuntimeError):  # closed, or no thread can be made: then the task waits itself
                self._last = self._pool.submit(self._write)

    def _write(self) -> None:
        with suppress(OSError):
            self._look_where_we_are()
            if self._procs_file is not None:
                fd = os.open(self._procs_file, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, b"0")
                finally:
                    os.close(fd)

    def _look_where_we_are(self) -> None:
        """An admin may have moved the server: it must not be moved back."""
        own_groups = _OWN_GROUPS.read_text()
        if own_groups != self._own_groups:
            self._own_groups, self._procs_file = own_groups, self._find_own_procs()

    def close(self) -> None:
        self._pool.shutdown()
