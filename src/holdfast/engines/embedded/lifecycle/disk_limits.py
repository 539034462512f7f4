"""Limits on what tasks write to the state folder's disk: measured from outside, enforced by stopping the task.

The kernel does not count a folder's size unless the filesystem has project quotas, which few have: so each task's files
are walked periodically. Between two walks controller/disk_monitor.py watches the whole disk.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from holdfast.core.attempt_id import parse_job_id
from holdfast.disk_space import DiskThresholds, read_disk_space
from holdfast.engines.base import LogUsage, TaskDiskUsage

from ..folder_content import DiskExcess, ExcessKind
from ..options import EmbeddedOptions
from ..task_folder import TaskFolder
from .disk_usage import MeasureSchedule, has_home_limit, measure_home_with_cpu_time, measure_task_files
from .killing import KillTarget, list_task_pids
from .live_tasks import LiveTask
from .recorder import LogRecorder, read_stream_size
from .task_folders import TaskFolders
from .timeline import MAX_OFFSET
from .unlinked_files import measure_unlinked_files

T = TypeVar("T")

_BLOCK_SIZE = 512  # unit of st_blocks
DISK_FULL_MARGIN = 2.0  # seconds after a full disk was detected
MEASURE_TIMEOUT = 3.0  # seconds for all tasks together, when the disk is nearly full
TASK_MEASURE_TIMEOUT = 1.0  # seconds for one of them
UNLINKED_MEASURE_TIMEOUT = 1.0  # for the files that one task has deleted but keeps open


class SupportsTaskLimits(Protocol):
    """What the limits need of the engine."""

    def list_live_tasks(self) -> Iterable[LiveTask]: ...

    def is_live(self, task: LiveTask) -> bool: ...

    async def stop(self, attempt_id: str, grace: float) -> None: ...

    def build_kill_target(self, task: LiveTask) -> KillTarget: ...


class ThreadRunner(Protocol):
    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


class DiskLimits:
    def __init__(self, host: SupportsTaskLimits, options: EmbeddedOptions, in_thread: ThreadRunner) -> None:
        self._host = host
        self._options = options
        self._limits = TaskDiskUsage(options.task_bytes, options.task_files)
        self._in_thread = in_thread
        self.full_at = float("-inf")  # seconds after boot of the last failed write
        self._unsaved_excesses: dict[str, DiskExcess] = {}  # by attempt id: the full disk had no space for them

    def was_disk_full(self, home: Path, ended: float) -> bool:
        """Return whether the disk was full when a task ended, in seconds after boot. Blocking."""
        return ended < self.full_at + DISK_FULL_MARGIN or _is_disk_critical(home, self._options.marks)

    def get_excess(self, attempt_id: str, folder: TaskFolder) -> DiskExcess | None:
        """Return why the task was stopped, if it used too much of the disk. Blocking."""
        return folder.read_disk_excess() or self._unsaved_excesses.get(attempt_id)

    async def run(self) -> None:
        """Stop each task that exceeds its limits. Runs until cancelled."""
        interval = self._options.scratch_interval
        pace = MeasureSchedule(interval, asyncio.get_running_loop().time, self._is_limited)
        while True:
            await asyncio.sleep(min(1.0, interval))
            for task in pace.list_due_tasks(self._host.list_live_tasks()):
                if self._host.is_live(task):
                    pace.record_measurement(task, await self._enforce_limits(task))

    def _is_limited(self, task: LiveTask) -> bool:
        return task.note is not None and (has_home_limit(task) or self._limits != TaskDiskUsage())

    async def _enforce_limits(self, task: LiveTask) -> float:
        """Return the seconds that measuring took. The excess stays recorded, also for a later server."""
        excess, took = self.get_excess(task.attempt_id, task.folder), 0.0
        if excess is None:
            excess, task.disk_usage, took = await self._in_thread(
                functools.partial(self._find_excess, task, self._host.build_kill_target(task))
            )
        if excess is not None and self._host.is_live(task):
            await self._stop_task(task, excess, self._options.scratch_grace)
        return took

    def _find_excess(self, task: LiveTask, target: KillTarget) -> tuple[DiskExcess | None, TaskDiskUsage, float]:
        """Return the excess, the usage, and the seconds of this thread's CPU time that counting took."""
        note, began = task.note, time.thread_time()
        assert note is not None
        if has_home_limit(task):
            held, took = measure_home_with_cpu_time(task.folder.path, note.home, note.scratch)
            if held > note.scratch:
                return DiskExcess(ExcessKind.HOME, held, note.scratch), TaskDiskUsage(held), took
        use, limits = TaskDiskUsage(), self._limits
        if limits != TaskDiskUsage():
            use = measure_all_files(target, limits)
        excess = None
        if limits.bytes and use.bytes > limits.bytes:
            excess = DiskExcess(ExcessKind.BYTES, use.bytes, limits.bytes)
        elif limits.files and use.files > limits.files:
            excess = DiskExcess(ExcessKind.FILES, use.files, limits.files)
        return excess, use, time.thread_time() - began

    async def _stop_task(self, task: LiveTask, excess: DiskExcess, grace: float) -> None:
        try:
            task.folder.write_disk_excess(excess)
        except OSError:  # the disk itself may be full: stop it anyway
            self._unsaved_excesses[task.attempt_id] = excess
        await self._host.stop(task.attempt_id, grace)

    # --- for the disk monitor

    async def measure_tasks(self) -> Mapping[str, TaskDiskUsage]:
        """Measure every running task, the largest first: time may be short."""
        tasks = sorted(self._host.list_live_tasks(), key=lambda task: task.disk_usage.bytes, reverse=True)
        targets = [(task, self._host.build_kill_target(task)) for task in tasks]
        return await self._in_thread(lambda: _measure_all_tasks(targets))

    async def trim_logs(self, keep: int, wanted: int) -> int:
        tasks = sorted(self._host.list_live_tasks(), key=lambda task: task.recorder.count_kept_bytes(), reverse=True)
        freed = 0
        for task in tasks:
            if freed >= wanted or not self._host.is_live(task):
                break
            freed += task.recorder.trim_streams(keep)
        return freed

    async def stop_task_for_full_disk(
        self, attempt_id: str, use: TaskDiskUsage, free: int, grace: float, *, files: bool
    ) -> None:
        kind = ExcessKind.SERVER_FILES if files else ExcessKind.SERVER
        excess = DiskExcess(kind, use.files if files else use.bytes, free)
        for task in self._host.list_live_tasks():
            if task.attempt_id == attempt_id:
                await self._stop_task(task, excess, grace)


def _measure_all_tasks(targets: Iterable[tuple[LiveTask, KillTarget]]) -> dict[str, TaskDiskUsage]:
    deadline = time.monotonic() + MEASURE_TIMEOUT
    found: dict[str, TaskDiskUsage] = {}
    for task, target in targets:
        now = time.monotonic()
        if now >= deadline:
            break
        use, before = (
            measure_all_files(target, TaskDiskUsage(), min(deadline, now + TASK_MEASURE_TIMEOUT)),
            task.disk_usage,
        )
        found[task.attempt_id] = replace(
            use, grown_bytes=max(0, use.bytes - before.bytes), grown_files=max(0, use.files - before.files)
        )
    return found


def measure_all_files(
    target: KillTarget, most: TaskDiskUsage, deadline: float = float("inf"), *, logs: bool = False
) -> TaskDiskUsage:
    """Like `measure_task_files`, with the files that the task has deleted but keeps open. Those are counted first, in
    half of the time: a folder with very many files must not hide them. Blocking."""
    now = time.monotonic()
    until = now + min(UNLINKED_MEASURE_TIMEOUT, max(0.0, deadline - now) / 2)
    unlinked = measure_unlinked_files(list_task_pids(target), target.folder.path, until)
    named = measure_task_files(target.folder.path, most, deadline, logs=logs)
    return TaskDiskUsage(named.bytes + unlinked.bytes, named.files + unlinked.files)


def cap_logs(folder: TaskFolder, cap: int) -> None:
    """Cap the logs of an ended task, which may have grown while no server watched it. Blocking."""
    if max(read_stream_size(folder, "stdout"), read_stream_size(folder, "stderr")) > cap:
        LogRecorder(folder, cap).record_sizes(final=True)


def trim_ended_logs(places: TaskFolders, keep: int, wanted: int) -> int:
    """Cut the largest logs found before the timeout. Blocking."""
    deadline = time.monotonic() + MEASURE_TIMEOUT
    found: list[tuple[int, str]] = []
    for folder in places.iter_archived_folders():
        if time.monotonic() > deadline:
            break
        size = measure_logs(folder.path)
        if size > keep:
            found.append((size, folder.path))
    freed = 0
    for _, path in sorted(found, reverse=True):
        if freed >= wanted:
            break
        recorder = LogRecorder(TaskFolder(path), MAX_OFFSET)
        recorder.record_sizes(final=True)
        freed += recorder.trim_streams(keep)
    return freed


def _is_disk_critical(home: Path, marks: DiskThresholds) -> bool:
    """Return whether programs can hardly write any more. Blocking."""
    try:
        space = read_disk_space(home)
    except OSError:
        return False
    lacks_files = space.total_files > 0 and space.free_files < marks.compute_critical_threshold_files(space)
    return space.free < marks.compute_critical_threshold_bytes(space) or lacks_files


def measure_ended_tasks(places: TaskFolders, ids: Iterable[str]) -> dict[str, int]:
    """Measure ended tasks, including logs. Blocking."""
    deadline = time.monotonic() + MEASURE_TIMEOUT
    return {
        id: measure_task_files(places.get_folder(id).path, TaskDiskUsage(), deadline, logs=True).bytes for id in ids
    }


def measure_logs_by_job(places: TaskFolders, timeout: float) -> tuple[dict[str, LogUsage], bool]:
    """Measure logs by job; also return whether all were counted. Blocking."""
    deadline, found = time.monotonic() + timeout, dict[str, LogUsage]()
    for folder in places.iter_archived_folders():
        if time.monotonic() > deadline:
            return found, False
        job_id = parse_job_id(folder.path.rpartition("/")[2])
        before = found.get(job_id, LogUsage())
        found[job_id] = LogUsage(before.bytes + measure_logs(folder.path), before.tasks + 1)
    return found, True


def measure_logs(folder: str) -> int:
    """Return the bytes on disk of a removed task's logs. Blocking."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_SIZE
    return size
