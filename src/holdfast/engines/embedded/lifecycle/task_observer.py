"""Observes tasks by their folders and the locks on their claims. Blocking: runs in a thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from resource import struct_rusage

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import sanitize_output
from holdfast.core.exits.exit import Cause

from .. import folder_content as read
from ..metrics.task_metrics import TaskMetrics
from ..options import EmbeddedOptions
from ..processes import open_pidfd, read_uptime
from ..task_folder import KILLED_FILE, TaskFolder, is_safe_id
from . import artifacts
from .disk_limits import DiskLimits
from .live_tasks import LiveTask
from .notes import read_notes
from .recorder import LogRecorder
from .task_folders import TaskFolders, was_out_of_memory

_CLAIM_TIMEOUT = 5.0  # seconds for a spawned runner to write its pid
_MAX_STDERR_SIZE = 500  # bytes of stderr that explain a failed sandbox


@dataclass(frozen=True, slots=True)
class TaskObserver:
    folders: TaskFolders
    options: EmbeddedOptions
    disk_limits: DiskLimits
    metrics: TaskMetrics
    read_boot_id: Callable[[], str]

    def observe_attempt(self, attempt_id: str) -> Observation:
        """Observe by files and lock. The claim is read again after the lock was found free: the task may have ended in
        between."""
        if not is_safe_id(attempt_id):
            return Observation(attempt_id=attempt_id, seen=ObservedState.ABSENT)
        folder = self.folders.get_folder(attempt_id)
        note = folder.read_start_note()
        if folder.is_alive():
            running = read.build_running_observation(attempt_id, note, folder.read_claim(), read_uptime())
            return read.add_notes(running, note, read_notes(folder), partial(was_out_of_memory, folder, note))
        claim = folder.read_claim()
        if claim.code is not None:
            return self.observe_end(attempt_id, folder, note, claim)
        return read.build_dead_observation(attempt_id, note, claim, self.read_boot_id())

    def observe_end(
        self,
        attempt_id: str,
        folder: TaskFolder,
        note: read.StartNote | None,
        claim: read.Claim,
        waited: struct_rusage | None = None,
    ) -> Observation:
        oom = claim.code != 0 and was_out_of_memory(folder, note)
        complaint = (
            "" if claim.command_code is not None else sanitize_output(folder.read_head("stderr", _MAX_STDERR_SIZE))
        )
        seen = read.build_ended_observation(
            attempt_id,
            note,
            claim,
            oom=oom,
            complaint=complaint,
            killed=claim.command_code is None and folder.has_file(KILLED_FILE),
            excess=self.disk_limits.get_excess(attempt_id, folder) if note is not None else None,
            artifacts=artifacts.may_have_artifacts(folder, note),
        )
        failed_by_itself = seen.seen is ObservedState.EXITED and seen.code and not (seen.cause or seen.oom)
        if failed_by_itself and self.disk_limits.was_disk_full(self.folders.home, claim.ended or read_uptime()):
            seen = replace(seen, cause=Cause.DISK_WAS_FULL)
        return replace(seen, used=self.metrics.read_final_usage(attempt_id, note, claim.ended or read_uptime(), waited))

    def open_live_task(self, attempt_id: str) -> LiveTask:
        folder = self.folders.get_folder(attempt_id)
        end = time.monotonic() + _CLAIM_TIMEOUT
        claim = folder.read_claim()
        while claim.pid is None and folder.is_alive() and time.monotonic() < end:
            time.sleep(0.001)
            claim = folder.read_claim()
        pidfd = None
        if claim.pid is not None and claim.started is not None:
            pidfd = open_pidfd(claim.pid, claim.started)
        started_at = claim.started / read.TICKS_PER_SECOND if claim.started is not None else read_uptime()
        return LiveTask(
            attempt_id=attempt_id,
            folder=folder,
            note=folder.read_start_note(),
            recorder=LogRecorder(folder, self.options.log_cap),
            pid=claim.pid or 0,
            pidfd=pidfd,
            started_at=started_at,
        )


def observe_running(task: LiveTask) -> Observation:
    seen = Observation(
        attempt_id=task.attempt_id,
        seen=ObservedState.RUNNING,
        started_at=task.note.at if task.note else None,
        elapsed=max(0.0, read_uptime() - task.started_at),
        warning=task.note.warning if task.note else "",
    )
    return read.add_notes(seen, task.note, task.notes, partial(was_out_of_memory, task.folder, task.note))
