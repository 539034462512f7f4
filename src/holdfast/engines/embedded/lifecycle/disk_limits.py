"""Limits on what tasks write to the state folder's disk: measured from outside, enforced by stopping the task.

The kernel counts no folder's size unless the filesystem has project quotas, which few have: so each task's files are
walked now and then. Between two walks the whole disk is watched by controller/disk_monitor.py.
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

from holdfast.core.attempt_id import job_id_of
from holdfast.disk_space import DiskMarks, read_disk_space
from holdfast.engines.base import DiskUse, LogUse

from ..folder_content import DiskExcess, ExcessKind
from ..options import EmbeddedOptions
from ..task_folder import TaskFolder
from .ending import Target, list_pids
from .live_tasks import LiveTask
from .places import Places
from .recorder import Recorder, stream_size
from .scratch import Pace, has_home_limit, measure_task, timed
from .timeline import MAX_OFFSET
from .unlinked_files import measure_unlinked

T = TypeVar("T")

_BLOCK_SIZE = 512  # unit of st_blocks
FULL_MARGIN = 2.0  # seconds after a full disk was seen
MEASURE_TIMEOUT = 3.0  # seconds for all tasks together, when the disk is nearly full
TASK_MEASURE_TIMEOUT = 1.0  # seconds for one of them
MAX_UNLINKED_SECONDS = 1.0  # for the files that one task has removed and holds open


class TaskHost(Protocol):
    """What is needed of the engine."""

    def live_tasks(self) -> Iterable[LiveTask]: ...

    def is_live(self, task: LiveTask) -> bool: ...

    async def stop(self, attempt_id: str, grace: float) -> None: ...

    def target_of(self, task: LiveTask) -> Target: ...


class InThread(Protocol):
    def __call__(self, call: Callable[[], T]) -> Awaitable[T]: ...


class DiskLimits:
    def __init__(self, host: TaskHost, options: EmbeddedOptions, in_thread: InThread) -> None:
        self._host = host
        self._options = options
        self._limits = DiskUse(options.task_bytes, options.task_files)
        self._in_thread = in_thread
        self.full_at = float("-inf")  # seconds after boot when programs could not write, last

    def was_disk_full(self, home: Path, ended: float) -> bool:
        """When a task ended, in seconds after boot. Blocking."""
        return ended < self.full_at + FULL_MARGIN or _is_disk_critical(home, self._options.marks)

    async def watch(self) -> None:
        """Stop each task that wrote more than it may. Until cancelled."""
        interval = self._options.scratch_every
        pace = Pace(interval, asyncio.get_running_loop().time, self._is_limited)
        while True:
            await asyncio.sleep(min(1.0, interval))
            for task in pace.due(self._host.live_tasks()):
                if self._host.is_live(task):
                    pace.looked(task, await self._check(task))

    def _is_limited(self, task: LiveTask) -> bool:
        return task.note is not None and (has_home_limit(task) or self._limits != DiskUse())

    async def _check(self, task: LiveTask) -> float:
        """Returns the seconds it took. One that was found too large stays so, also for a server that comes later."""
        excess, took = task.folder.read_full(), 0.0
        if excess is None:
            excess, task.disk_use, took = await self._in_thread(
                functools.partial(self._find_excess, task, self._host.target_of(task))
            )
        if excess is not None and self._host.is_live(task):
            await self._stop(task, excess, self._options.scratch_grace)
        return took

    def _find_excess(self, task: LiveTask, target: Target) -> tuple[DiskExcess | None, DiskUse, float]:
        """What is too much, what there is, and the seconds of this thread's work that counting took."""
        note, began = task.note, time.thread_time()
        assert note is not None
        if has_home_limit(task):
            held, took = timed(task.folder.path, note.home, note.scratch)
            if held > note.scratch:
                return DiskExcess(ExcessKind.HOME, held, note.scratch), DiskUse(held), took
        use, limits = DiskUse(), self._limits
        if limits != DiskUse():
            use = measure_all_files(target, limits)
        excess = None
        if limits.bytes and use.bytes > limits.bytes:
            excess = DiskExcess(ExcessKind.BYTES, use.bytes, limits.bytes)
        elif limits.files and use.files > limits.files:
            excess = DiskExcess(ExcessKind.FILES, use.files, limits.files)
        return excess, use, time.thread_time() - began

    async def _stop(self, task: LiveTask, excess: DiskExcess, grace: float) -> None:
        with suppress(OSError):  # the disk itself may be full: stop it all the more
            task.folder.mark_full(excess)
        await self._host.stop(task.attempt_id, grace)

    # --- for the disk monitor

    async def measure(self) -> Mapping[str, DiskUse]:
        """Of every task that runs, those that had written most before first: time may be short."""
        tasks = sorted(self._host.live_tasks(), key=lambda task: task.disk_use.bytes, reverse=True)
        targets = [(task, self._host.target_of(task)) for task in tasks]
        return await self._in_thread(lambda: _measure_all(targets))

    async def cut_logs(self, keep: int, wanted: int) -> int:
        tasks = sorted(self._host.live_tasks(), key=lambda task: task.recorder.kept_bytes(), reverse=True)
        freed = 0
        for task in tasks:
            if freed >= wanted or not self._host.is_live(task):
                break
            freed += task.recorder.cut(keep)
        return freed

    async def stop_for_disk(self, attempt_id: str, use: DiskUse, free: int, grace: float, *, files: bool) -> None:
        kind = ExcessKind.SERVER_FILES if files else ExcessKind.SERVER
        excess = DiskExcess(kind, use.files if files else use.bytes, free)
        for task in self._host.live_tasks():
            if task.attempt_id == attempt_id:
                await self._stop(task, excess, grace)


def _measure_all(targets: Iterable[tuple[LiveTask, Target]]) -> dict[str, DiskUse]:
    deadline = time.monotonic() + MEASURE_TIMEOUT
    found: dict[str, DiskUse] = {}
    for task, target in targets:
        now = time.monotonic()
        if now >= deadline:
            break
        use, before = (
            measure_all_files(target, DiskUse(), min(deadline, now + TASK_MEASURE_TIMEOUT)),
            task.disk_use,
        )
        found[task.attempt_id] = replace(
            use, grown_bytes=max(0, use.bytes - before.bytes), grown_files=max(0, use.files - before.files)
        )
    return found


def measure_all_files(target: Target, most: DiskUse, deadline: float = float("inf"), *, logs: bool = False) -> DiskUse:
    """As `measure_task`, with the files that the task holds open and has removed. Those are counted first and have half
    of the time: a folder with very many files must not hide them. Blocking."""
    now = time.monotonic()
    until = now + min(MAX_UNLINKED_SECONDS, max(0.0, deadline - now) / 2)
    unlinked = measure_unlinked(list_pids(target), target.folder.path, until)
    named = measure_task(target.folder.path, most, deadline, logs=logs)
    return DiskUse(named.bytes + unlinked.bytes, named.files + unlinked.files)


def cap_logs(folder: TaskFolder, cap: int) -> None:
    """Of an ended task: it may have written more than it may keep while no server watched it. Blocking."""
    if max(stream_size(folder, "stdout"), stream_size(folder, "stderr")) > cap:
        Recorder(folder, cap).record(final=True)


def cut_ended_logs(places: Places, keep: int, wanted: int) -> int:
    """The largest of those that there was time to look at. Blocking."""
    deadline = time.monotonic() + MEASURE_TIMEOUT
    found: list[tuple[int, str]] = []
    for folder in places.shelved():
        if time.monotonic() > deadline:
            break
        size = measure_logs(folder.path)
        if size > keep:
            found.append((size, folder.path))
    freed = 0
    for _, path in sorted(found, reverse=True):
        if freed >= wanted:
            break
        recorder = Recorder(TaskFolder(path), MAX_OFFSET)
        recorder.record(final=True)
        freed += recorder.cut(keep)
    return freed


def _is_disk_critical(home: Path, marks: DiskMarks) -> bool:
    """Programs can hardly write any more. Blocking."""
    try:
        space = read_disk_space(home)
    except OSError:
        return False
    lacks_files = space.total_files > 0 and space.free_files < marks.critical_files(space)
    return space.free < marks.critical(space) or lacks_files


def measure_ended(places: Places, ids: Iterable[str]) -> dict[str, int]:
    """Logs and all. Blocking."""
    deadline = time.monotonic() + MEASURE_TIMEOUT
    return {id: measure_task(places.folder(id).path, DiskUse(), deadline, logs=True).bytes for id in ids}


def scan_logs(places: Places, timeout: float) -> tuple[dict[str, LogUse], bool]:
    """By job; with whether there was time for all. Blocking."""
    deadline, found = time.monotonic() + timeout, dict[str, LogUse]()
    for folder in places.shelved():
        if time.monotonic() > deadline:
            return found, False
        job_id = job_id_of(folder.path.rpartition("/")[2])
        before = found.get(job_id, LogUse())
        found[job_id] = LogUse(before.bytes + measure_logs(folder.path), before.tasks + 1)
    return found, True


def measure_logs(folder: str) -> int:
    """Bytes that the logs of a removed task take on the disk. Blocking."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_SIZE
    return size
