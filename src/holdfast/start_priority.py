"""Raises the priority of a server while it starts, so that a busy machine does not delay its return.

Loading the server takes one to two seconds of processor time; among jobs that use every core it would get a small part
of one. The priority is back to normal before any task starts, so no task inherits it; only the short trials of the
sandbox run with it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_NICE = -15  # while starting; -20 is the highest priority
_AUTOGROUP = Path("/proc/self/autogroup")  # where processes are scheduled by session, its nice value counts
_THREADS = Path("/proc/self/task")


class _Raised:
    """What the values were before; None where they were not changed."""

    nice: int | None = None
    autogroup: int | None = None


def raise_start_priority() -> None:
    """Of this thread, of those that it starts, and of its session. Does nothing where that is not permitted."""
    with suppress(OSError):
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        if nice > _NICE:
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
            _Raised.nice = nice
    with suppress(OSError, ValueError, IndexError):
        value = int(_AUTOGROUP.read_text().split()[-1])
        if value > _NICE and os.getsid(0) == os.getpid():  # else it is the session of a shell, and of others
            _AUTOGROUP.write_text(str(_NICE))
            _Raised.autogroup = value


def restore_priority() -> None:
    """As it was, for all threads of this process."""
    nice, autogroup = _Raised.nice, _Raised.autogroup
    _Raised.nice = _Raised.autogroup = None
    if nice is not None:
        for thread in _THREADS.iterdir():
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
    if autogroup is not None:
        with suppress(OSError):
            _AUTOGROUP.write_text(str(autogroup))
