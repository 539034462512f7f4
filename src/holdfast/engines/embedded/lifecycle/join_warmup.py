"""Removes the kernel's delay for joining a cgroup from a task's start.

Before a process may change its cgroup, the kernel waits for an RCU grace period, 5 to 20 ms, unless another process has
just changed its cgroup. So while a task is being prepared, the server writes its own pid to its own cgroup. That moves
nothing, and the delay is over when the task joins its cgroups.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ..cgroups import write_control_file

MIN_WARMUP_INTERVAL = 0.003  # seconds: shorter than any grace period
_OWN_CGROUPS_FILE = Path("/proc/self/cgroup")


class JoinWarmup:
    def __init__(self, find_own_procs: Callable[[], str | None]) -> None:
        """`find_own_procs` returns the cgroup.procs file of a group of this process; None: there is none."""
        self._find_own_procs = find_own_procs
        self._own_groups = ""  # content when that file was searched
        self._procs_file: str | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="join-warmup")
        self._last: Future[None] | None = None
        self._next = 0.0  # monotonic

    def start(self) -> None:
        """Start the delay, unless it has just started. Never fails."""
        now = time.monotonic()
        if now >= self._next and (self._last is None or self._last.done()):
            self._next = now + MIN_WARMUP_INTERVAL
            with suppress(RuntimeError):  # closed, or no thread can be started: then the task waits itself
                self._last = self._pool.submit(self._write_pid)

    def _write_pid(self) -> None:
        with suppress(OSError):
            own_groups = _OWN_CGROUPS_FILE.read_text()
            if own_groups != self._own_groups:  # an admin moved the server: it must not be moved back
                self._own_groups, self._procs_file = own_groups, self._find_own_procs()
            if self._procs_file is not None:
                write_control_file(self._procs_file, "0")

    def close(self) -> None:
        self._pool.shutdown()
