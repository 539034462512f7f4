"""Running tasks, as the engine watches them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from resource import struct_rusage

from holdfast.engines.base import TaskDiskUsage

from ..folder_content import Claim, StartNote, TaskNotes
from ..task_folder import TaskFolder
from .recorder import LogRecorder


@dataclass(slots=True, kw_only=True, eq=False)
class LiveTask:
    attempt_id: str
    folder: TaskFolder
    note: StartNote | None
    recorder: LogRecorder
    pid: int  # of the runner
    pidfd: int | None  # awaited: the runner, then the last process of the sandbox
    claim: Claim = field(default_factory=Claim)  # read when the runner exited
    rusage: struct_rusage | None = None  # usage of the runner and its waited-for descendants, once it has exited
    runner_ended: bool = False  # the last processes of the sandbox may still run
    init_pid: int | None = None  # of the sandbox, known once the runner has exited
    started_at: float  # seconds after boot
    watch: int | None = None  # inotify watch of its files
    notes_watch: int | None = None  # inotify watch of its notes
    notes: TaskNotes = field(default_factory=TaskNotes)  # as last read
    next_measure_at: float | None = None  # next time to measure its home, in the event loop's time
    measure_cpu_time: float = 0.0  # seconds that the last measurement took
    disk_usage: TaskDiskUsage = field(default_factory=TaskDiskUsage)  # as last measured
    kill_at: float | None = None  # set by stop, in the event loop's time
    kill_timer: asyncio.TimerHandle | None = None
    watch_timer: asyncio.TimerHandle | None = None
    record_timer: asyncio.TimerHandle | None = None
    poll_timer: asyncio.TimerHandle | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel_timers(self) -> None:
        for timer in (self.kill_timer, self.watch_timer, self.record_timer, self.poll_timer):
            if timer is not None:
                timer.cancel()


def get_sandbox_pids(claim: Claim) -> tuple[int, int] | None:
    """Return the sandbox's first process and its PID namespace, once bubblewrap has reported them."""
    if claim.init_pid is None or claim.pid_namespace is None:
        return None
    return claim.init_pid, claim.pid_namespace
