"""Raises the priority of a server while it starts, so that a busy machine does not delay it.

Loading the server takes one to two seconds of CPU time; among jobs that use every core it would get a small part of
one. The priority is back to normal before any task starts, so no task inherits it; only the short trials of the sandbox
run with it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_START_NICE = -15  # while starting; -20 is the highest priority
_AUTOGROUP_FILE = Path("/proc/self/autogroup")  # where processes are scheduled by session, its nice value counts
_THREADS_FOLDER = Path("/proc/self/task")


class _SavedPriority:
    """The earlier values; None if unchanged."""

    nice: int | None = None
    autogroup: int | None = None


def raise_start_priority() -> None:
    """Raise it for this thread, its child threads and its session. Does nothing if that is denied."""
    with suppress(OSError):
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        if nice > _START_NICE:
            os.setpriority(os.PRIO_PROCESS, 0, _START_NICE)
            _SavedPriority.nice = nice
    with suppress(OSError, ValueError, IndexError):
        value = int(_AUTOGROUP_FILE.read_text().split()[-1])
        if value > _START_NICE and os.getsid(0) == os.getpid():  # else it is the session of a shell, and of others
            _AUTOGROUP_FILE.write_text(str(_START_NICE))
            _SavedPriority.autogroup = value


def restore_priority() -> None:
    """Restore it for all threads of this process."""
    nice, autogroup = _SavedPriority.nice, _SavedPriority.autogroup
    _SavedPriority.nice = _SavedPriority.autogroup = None
    if nice is not None:
        for thread in _THREADS_FOLDER.iterdir():
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
    if autogroup is not None:
        with suppress(OSError):
            _AUTOGROUP_FILE.write_text(str(autogroup))
