"""Starts on a full disk: releases the reserve, and if that is not enough, stops the tasks that fill the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.core.job import GIB, MIB
from holdfast.disk_reserve import DiskReserve
from holdfast.disk_space import DiskSpace, DiskThresholds, read_disk_space
from holdfast.engines.embedded.lifecycle.disk_emergency import stop_largest_task
from holdfast.settings import Settings

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_LOG_BYTES = 10 * GIB
MAX_LOG_PERCENT = 5
MAX_START_TRIES = 20
MIN_START_BYTES = MIB // 2  # with less the database may not open
MIN_START_FILES = 16


def create_disk_reserve(home: Path, marks: DiskThresholds) -> DiskReserve:
    reserve = DiskReserve(home / "reserve", marks.compute_reserve_bytes(read_disk_space(home)))
    reserve.prepare_full_marker()
    return reserve


def compute_task_limits(home: Path, settings: Settings) -> tuple[int, int, int]:
    """Return the max bytes of a log stream, the max bytes and the max files of a task; 0 of the last two: unlimited."""
    space, disk = _read_nearest_space(home), settings.disk
    log_bytes = max(MIB, min(MAX_LOG_BYTES, space.total * MAX_LOG_PERCENT // 100))
    return (
        settings.logs.cap_bytes or log_bytes,
        space.total // 2 if disk.task_bytes is None else disk.task_bytes,
        space.total_files // 2 if disk.task_files is None else disk.task_files,
    )


def _read_nearest_space(folder: Path) -> DiskSpace:
    """Read the space of the disk where the folder is, or will be."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return read_disk_space(folder)


def open_with_space(open_it: Callable[[], T], home: Path, reserve: DiskReserve) -> T:
    """Return the result of `open_it`. On a full disk the tasks that fill it are stopped before, as the disk monitor
    would soon do: they could use all the space that the start needs. Then a part of the reserve is released."""
    for _ in range(MAX_START_TRIES):
        if not is_disk_space_low(home) or not _stop_largest_task(home):
            break
    if is_disk_space_low(home):
        reserve.release_step(for_start=True)
    for _ in range(MAX_START_TRIES):
        try:
            return open_it()
        except (HoldfastError, OSError):
            if not is_disk_space_low(home) or not (_stop_largest_task(home) or reserve.release_step(for_start=True)):
                raise
    return open_it()


def _stop_largest_task(home: Path) -> bool:
    stopped = stop_largest_task(home)
    if stopped is not None:
        log.warning("stopped a task: the disk is full", extra={"event": "disk", "attempt": stopped})
    return stopped is not None


def is_disk_space_low(home: Path) -> bool:
    """Return whether the server may be unable to start."""
    space = read_disk_space(home)
    return space.free < MIN_START_BYTES or (space.total_files > 0 and space.free_files < MIN_START_FILES)
