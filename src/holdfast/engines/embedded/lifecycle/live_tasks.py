"""Tasks that run: what the engine remembers of each while it watches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from resource import struct_rusage

from holdfast.engines.base import DiskUse

from ..folder_content import Claim, Notes, StartNote
from ..task_folder import TaskFolder
from .recorder import Recorder


@dataclass(slots=True, kw_only=True, eq=False)
class LiveTask:
    attempt_id: str
    folder: TaskFolder
    note: StartNote | None
    recorder: Recorder
    pid: int  # of the runner
    pidfd: int | None  # what is being waited for: the runner, then the last of the sandbox
    claim: Claim = field(default_factory=Claim)  # as it was when the runner ended
    waited: struct_rusage | None = None  # what the runner and all that were waited for below it used, once it has ended
    runner_ended: bool = False  # the last of the sandbox may still be going
    init_pid: int | None = None  # of the sandbox, known once the runner has ended
    started_at: float  # seconds after boot
    watch: int | None = None  # number of its file notices
    notes_watch: int | None = None  # the same, of its folder of notes
    notes: Notes = field(default_factory=Notes)  # what it told last
    scratch_at: float | None = None  # when its home is to be looked at next, in the event loop's time
    disk_use: DiskUse = field(default_factory=DiskUse)  # as it was measured last
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


def pids_of(claim: Claim) -> tuple[int, int] | None:
    """The sandbox's first process and its namespace, once bubblewrap has reported them."""
    if claim.init_pid is None or claim.pid_namespace is None:
        return None
    return claim.init_pid, claim.pid_namespace
