"""Stops the task that fills the disk before the engine is open: the server needs space to open its database.

Blocking: used at the start only.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from holdfast.core.job import MIB
from holdfast.disk_space import read_disk_space
from holdfast.engines.base import TaskDiskUsage

from ..folder_content import DiskExcess, ExcessKind
from ..task_folder import KEPT_FILES, TaskFolder, is_safe_id
from ..tree_removal import remove_tree
from . import killing
from .disk_limits import measure_all_files
from .recorder import LogRecorder
from .task_folders import TaskFolders

MIN_DISK_PERCENT = 5  # of the disk's bytes or inodes; a task with less is not stopped
KEPT_LOG_SIZE = MIB  # bytes of each stream
MEASURE_TIMEOUT = 10.0  # seconds for all tasks
KILL_TIMEOUT = 5.0  # seconds for a task to end
_POLL_INTERVAL = 0.01  # seconds


def stop_largest_task(home: Path) -> str | None:
    """Kill the running task that has written most, including logs, and remove its files, so that its artifacts are
    lost. Returns its attempt id; None if no task is large enough."""
    places = TaskFolders(home)
    found = _find_largest_task(places)
    if found is None:
        return None
    attempt_id, use, files = found
    folder = places.get_folder(attempt_id)
    space = read_disk_space(home)
    excess = (
        DiskExcess(ExcessKind.SERVER_FILES, use.files, space.free_files)
        if files
        else DiskExcess(ExcessKind.SERVER, use.bytes, space.free)
    )
    _kill_task(places, attempt_id, folder)
    for name in os.listdir(folder.path):
        if name not in KEPT_FILES:
            remove_tree(folder[name])
    LogRecorder(folder, KEPT_LOG_SIZE).record_sizes(final=True)
    with suppress(OSError):  # without the mark its exit only shows the kill
        folder.write_disk_excess(excess)
    return attempt_id


def _find_largest_task(places: TaskFolders) -> tuple[str, TaskDiskUsage, bool] | None:
    """Also return whether the number of its files is the problem rather than their size."""
    deadline = time.monotonic() + MEASURE_TIMEOUT
    uses: dict[str, TaskDiskUsage] = {}
    try:
        names = places.list_attempt_ids()
    except OSError:
        return None
    for attempt_id in names:
        if is_safe_id(attempt_id) and places.get_folder(attempt_id).is_alive():
            uses[attempt_id] = measure_all_files(
                _build_kill_target(places, attempt_id), TaskDiskUsage(), deadline, logs=True
            )
    if not uses:
        return None
    space = read_disk_space(places.home)
    largest = max(uses, key=lambda id: uses[id].bytes)
    if uses[largest].bytes * 100 >= space.total * MIN_DISK_PERCENT:
        return largest, uses[largest], False
    most = max(uses, key=lambda id: uses[id].files)
    return (most, uses[most], True) if 0 < space.total_files * MIN_DISK_PERCENT <= uses[most].files * 100 else None


def _kill_task(places: TaskFolders, attempt_id: str, folder: TaskFolder) -> None:
    target = _build_kill_target(places, attempt_id)
    deadline = time.monotonic() + KILL_TIMEOUT
    while folder.is_alive() and time.monotonic() < deadline:
        killing.kill_task(target)
        time.sleep(_POLL_INTERVAL)


def _build_kill_target(places: TaskFolders, attempt_id: str) -> killing.KillTarget:
    folder = places.get_folder(attempt_id)
    return killing.KillTarget(
        places.get_machine_wide_name(attempt_id), folder, folder.read_start_note(), folder.read_claim().pid or 0
    )
