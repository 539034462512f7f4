"""Monitors the state folder's disk and acts before the server runs out of space.

Below the low mark it warns. Below the full mark no task starts, logs of running tasks are truncated, files of held
tasks are released, and tasks that fill the disk are stopped; without such tasks, logs of ended tasks are truncated.
When the server's own writes would fail, the reserve is released; it is restored when space is free again. The reasons
are in docs/dev/decisions/0027-a-full-disk-does-not-stop-the-server.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.job import MIB
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import format_bytes
from holdfast.disk_reserve import DiskReserve
from holdfast.disk_space import DiskSpace, DiskThresholds, read_disk_space
from holdfast.engines.base import Engine, SupportsDiskLimits, TaskDiskUsage
from holdfast.hang_guard import HangGuard, NotResponding

log = logging.getLogger(__name__)

CHECK_INTERVAL = 1.0  # seconds
FULL_CHECK_INTERVAL = 0.25  # seconds, while it is full
FILES_DISK_INTERVAL = 30.0  # seconds, for a separate disk for shared files
DISK_TIMEOUT = 10.0  # seconds for a disk to respond
FREE_SPACE_CHECK_INTERVAL = 0.1  # seconds between checks for free space
FREE_SPACE_TIMEOUT = 10.0  # seconds that a write waits for free space
STOP_INTERVAL = 3.0  # seconds until more tasks are stopped: by then the files of the last ones are removed
SEARCH_INTERVAL = 0.5  # seconds until the next search for tasks to stop when none was found
STOP_GRACE = 5.0  # seconds between TERM and KILL; none once the server's own writes would fail
KEPT_LOG_DIVISOR = 4  # initial share of the full mark that stays of each log
MIN_KEPT_LOG_SIZE = MIB // 16  # bytes
RELEASE_BELOW_BYTES = MIB // 2  # free space below which a part of the reserve is released
RELEASE_BELOW_FILES = 8
VICTIM_PERCENT = 5  # of the disk: a task that uses this much is stopped, even without growth
MIN_VICTIM_BYTES = MIB
MIN_VICTIM_FILES = 100


class DiskLevel(StrEnum):
    OK = "ok"
    LOW = "low"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskState:
    space: DiskSpace
    missing: int = 0  # bytes missing in the reserve: they count as used
    missing_files: int = 0

    @property
    def free(self) -> int:
        return self.space.free - self.missing

    @property
    def free_files(self) -> int:
        return self.space.free_files - self.missing_files


def assess_disk_level(state: DiskState, marks: DiskThresholds, before: DiskLevel) -> DiskLevel:
    """Return the level; after a full disk, more free space is required."""
    space = state.space
    full, full_files = marks.compute_full_threshold_bytes(space), marks.compute_full_threshold_files(space)
    if before is DiskLevel.FULL:
        full, full_files = full + full // 4, full_files + full_files // 4
    counted = space.total_files > 0
    if state.free < full or (counted and state.free_files < full_files):
        return DiskLevel.FULL
    if state.free < marks.compute_low_threshold_bytes(space) or (
        counted and state.free_files < marks.compute_low_threshold_files(space)
    ):
        return DiskLevel.LOW
    return DiskLevel.OK


def is_critical(state: DiskState, marks: DiskThresholds) -> bool:
    """Whether the server's own writes are about to fail."""
    space = state.space
    lacks_files = space.total_files > 0 and space.free_files < marks.compute_critical_threshold_files(space)
    return space.free < marks.compute_critical_threshold_bytes(space) or lacks_files


def is_out_of_space(state: DiskState) -> bool:
    """Whether the reserve is needed."""
    space = state.space
    return space.free < RELEASE_BELOW_BYTES or (space.total_files > 0 and space.free_files < RELEASE_BELOW_FILES)


def lacks_inodes(state: DiskState, marks: DiskThresholds) -> bool:
    """Whether inodes are missing, not bytes."""
    space, mark = state.space, marks.compute_full_threshold_files(state.space)
    return (
        space.total_files > 0
        and state.free_files < mark + mark // 4
        and state.free >= marks.compute_full_threshold_bytes(space)
    )


def choose_tasks_to_stop(
    uses: Mapping[str, TaskDiskUsage], state: DiskState, marks: DiskThresholds, *, critical: bool
) -> list[tuple[str, TaskDiskUsage]]:
    """Return the tasks to stop, largest usage first, until enough is freed. Unless it is critical, only tasks that fill
    the disk: the cause may be another program."""
    space, files = state.space, lacks_inodes(state, marks)

    def get_usage(use: TaskDiskUsage) -> int:
        return use.files if files else use.bytes

    def get_growth(use: TaskDiskUsage) -> int:
        return use.grown_files if files else use.grown_bytes

    mark = marks.compute_full_threshold_files(space) if files else marks.compute_full_threshold_bytes(space)
    least = MIN_VICTIM_FILES if files else MIN_VICTIM_BYTES
    share = (space.total_files if files else space.total) * VICTIM_PERCENT // 100
    wanted = mark + mark // 4 - (state.free_files if files else state.free)
    found: list[tuple[str, TaskDiskUsage]] = []
    for attempt_id, use in sorted(uses.items(), key=lambda item: (-get_usage(item[1]), item[0])):
        is_filler = get_usage(use) >= share or get_growth(use) >= mark // 4
        if wanted <= 0 or get_usage(use) < least:
            break
        if critical or is_filler:
            found.append((attempt_id, use))
            wanted -= get_usage(use)
    return found


class ConditionReporter(Protocol):
    def report_condition(self, condition: Condition) -> None: ...

    def resolve_condition(self, kind: ConditionKind) -> None: ...


class DiskMonitor:
    def __init__(
        self,
        conditions: ConditionReporter,
        engine: Engine,
        home: Path,
        marks: DiskThresholds,
        reserve: DiskReserve,
        *,
        release_held: Callable[[], Awaitable[object]],
        remove_image: Callable[[], Awaitable[bool]],
        read: Callable[[Path], DiskSpace] = read_disk_space,
    ) -> None:
        """`release_held` releases the files of one held task, if that helps; `remove_image` removes an unused image."""
        self._conditions = conditions
        self._engine = engine
        self._home = home
        self._marks = marks
        self._reserve = reserve
        self._release_held = release_held
        self._remove_image = remove_image
        self._read = read
        self._hang_guard = HangGuard("disk-monitor")
        self._check_lock = asyncio.Lock()
        self._free_space_task: asyncio.Task[None] | None = None
        self._release_task: asyncio.Task[object] | None = None
        self._log_divisor = KEPT_LOG_DIVISOR
        self._next_stop = 0.0  # in the event loop's time
        self._next_cut = 0.0
        self.level = DiskLevel.OK

    async def run(self) -> None:
        while True:
            await self.try_enforce_disk_thresholds()
            await asyncio.sleep(FULL_CHECK_INTERVAL if self.level is DiskLevel.FULL else CHECK_INTERVAL)

    async def free_space_now(self) -> None:
        """Free space after a failed write. Returns when some is free, or none can be freed."""
        if self._free_space_task is None or self._free_space_task.done():
            self._free_space_task = asyncio.ensure_future(self._free_space_until_usable())
        await asyncio.shield(self._free_space_task)

    async def enforce_disk_thresholds(self, *, urgent: bool = False) -> DiskState:
        async with self._check_lock:
            state = await self._read_state_with_timeout()
            critical = urgent or is_critical(state, self._marks)
            if critical and isinstance(self._engine, SupportsDiskLimits):
                self._engine.record_disk_full()
            if is_critical(state, self._marks):  # a write may also fail because the database's own disk is full
                await self._hang_guard.run_with_timeout(self._reserve.record_full, DISK_TIMEOUT)
            if (urgent or is_out_of_space(state)) and await self._release_reserve():
                state = await self._read_state_with_timeout()
            self.level = assess_disk_level(state, self._marks, self.level)
            self._report_level(state)
            if self.level is not DiskLevel.OK:
                self._start_release()
            if self.level is DiskLevel.FULL:
                await self._free_space(state, critical=critical)
                return state
            self._log_divisor = KEPT_LOG_DIVISOR
            self._next_stop = 0.0
            if state.missing or state.missing_files:
                await self._hang_guard.run_with_timeout(self._reserve.fill_reserve, DISK_TIMEOUT)
            return state

    async def try_enforce_disk_thresholds(self, *, urgent: bool = False) -> DiskState | None:
        """Check the disk; None if it does not respond."""
        try:
            return await self.enforce_disk_thresholds(urgent=urgent)
        except (NotResponding, OSError) as error:
            log.warning("could not read the disk usage", extra={"event": "disk", "error": str(error)})
        except Exception:
            log.exception("could not free disk space", extra={"event": "disk"})
        return None

    async def _free_space_until_usable(self) -> None:
        """Wait until stopped tasks are removed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FREE_SPACE_TIMEOUT):
                state = await self.try_enforce_disk_thresholds(urgent=True)
                while state is not None and is_critical(state, self._marks):
                    await asyncio.sleep(FREE_SPACE_CHECK_INTERVAL)
                    state = await self.try_enforce_disk_thresholds()

    async def _read_state_with_timeout(self) -> DiskState:
        return await self._hang_guard.run_with_timeout(self._read_state, DISK_TIMEOUT)

    def _read_state(self) -> DiskState:
        space = self._read(self._home)
        counted = space.total_files > 0
        missing_files = self._reserve.count_missing_files() if counted else 0
        return DiskState(space=space, missing=self._reserve.count_missing_bytes(), missing_files=missing_files)

    async def _release_reserve(self) -> bool:
        released = await self._hang_guard.run_with_timeout(self._reserve.release_step, DISK_TIMEOUT)
        if released:
            log.warning("released a part of the disk reserve", extra={"event": "disk", "bytes": released})
        return released > 0

    def _report_level(self, state: DiskState) -> None:
        if self.level is DiskLevel.FULL:
            self._conditions.report_condition(build_full_condition(state, self._marks))
        else:
            self._conditions.resolve_condition(ConditionKind.DISK_FULL)
        if self.level is DiskLevel.LOW:
            self._conditions.report_condition(build_low_condition(state, self._marks))
        else:
            self._conditions.resolve_condition(ConditionKind.DISK_LOW)

    async def _free_space(self, state: DiskState, *, critical: bool) -> None:
        if not isinstance(self._engine, SupportsDiskLimits):
            return
        mark = self._marks.compute_full_threshold_bytes(state.space)
        shortage = mark + mark // 4 - state.free
        keep = max(MIN_KEPT_LOG_SIZE, mark // self._log_divisor)
        freed = await self._trim_logs(self._engine, keep, shortage)
        clock = asyncio.get_running_loop().time
        now = clock()
        if now < self._next_stop or (0 < shortage <= freed and not critical):
            return
        self._next_stop = now + STOP_INTERVAL
        stopped = await self._stop_largest_writers(self._engine, state, critical=critical)
        self._next_stop = clock() + (STOP_INTERVAL if stopped else max(SEARCH_INTERVAL, clock() - now))
        if not stopped and now >= self._next_cut:
            self._next_cut = now + STOP_INTERVAL
            await self._trim_logs(self._engine, keep, shortage, ended=True)
            self._log_divisor *= 2  # keep less each time until it is enough

    async def _trim_logs(self, engine: SupportsDiskLimits, keep: int, wanted: int, *, ended: bool = False) -> int:
        freed = await engine.trim_logs(keep, wanted, ended=ended) if wanted > 0 else 0
        if freed:
            log.warning("truncated logs: the disk is full", extra={"event": "disk", "bytes": freed})
        return freed

    async def _stop_largest_writers(self, engine: SupportsDiskLimits, state: DiskState, *, critical: bool) -> bool:
        uses = await engine.measure_disk()
        files = lacks_inodes(state, self._marks)
        victims = choose_tasks_to_stop(uses, state, self._marks, critical=critical)
        for attempt_id, use in victims:
            details = {"event": "disk", "attempt": attempt_id, "bytes": use.bytes, "files": use.files}
            log.warning("stopped a task: the disk is full", extra=details)
            free = max(0, state.free_files if files else state.free)
            await engine.stop_task_for_full_disk(attempt_id, use, free, 0.0 if critical else STOP_GRACE, files=files)
        return bool(victims)

    def _start_release(self) -> None:
        """Release unused images and held files in the background: it waits for the database."""
        if self._release_task is None or self._release_task.done():
            self._release_task = asyncio.ensure_future(self._try_release())

    async def _try_release(self) -> None:
        try:
            if not await self._remove_image() and self.level is DiskLevel.FULL:
                await self._release_held()
        except Exception:
            log.exception("could not release images or held files", extra={"event": "disk"})


def build_full_condition(state: DiskState, marks: DiskThresholds) -> Condition:
    """Build the condition without current values, so that its text does not change."""
    if lacks_inodes(state, marks):
        why = msg("almost no inodes are free")
    else:
        why = msg("less than {space} is free", space=format_bytes(marks.compute_full_threshold_bytes(state.space)))
    return Condition(
        kind=ConditionKind.DISK_FULL,
        message=msg("The server's disk is full: {why}. No task starts until disk space is freed.", why=why),
        hint=msg("Free disk space: use `holdfast prune` to list disk usage and delete data that is not needed."),
        blocks_starts=True,
    )


def build_low_condition(state: DiskState, marks: DiskThresholds) -> Condition:
    low = marks.compute_low_threshold_bytes(state.space)
    why = msg("less than {low} is free", low=format_bytes(low)) if state.free < low else msg("few inodes are free")
    return Condition(
        kind=ConditionKind.DISK_LOW,
        message=msg("The server's disk is nearly full: {why}.", why=why),
        hint=msg("Free disk space before jobs are blocked: `holdfast prune` shows the disk usage."),
        warning=True,
    )


class FilesDiskMonitor:
    """Monitors the disk for shared files, if files.folder is on another disk than the state folder."""

    def __init__(self, conditions: ConditionReporter, folder: Path, marks: DiskThresholds) -> None:
        self._conditions = conditions
        self._folder = folder
        self._marks = marks
        self._hang_guard = HangGuard("files-disk-monitor")

    async def run(self) -> None:
        while True:
            with suppress(NotResponding, OSError):  # an unreachable file server is reported elsewhere
                await self.check_disk()
            await asyncio.sleep(FILES_DISK_INTERVAL)

    async def check_disk(self) -> None:
        space = await self._hang_guard.run_with_timeout(lambda: read_disk_space(self._folder), DISK_TIMEOUT)
        if assess_disk_level(DiskState(space=space), self._marks, DiskLevel.OK) is DiskLevel.FULL:
            self._conditions.report_condition(FILES_DISK_FULL_CONDITION)
        else:
            self._conditions.resolve_condition(ConditionKind.FILES_DISK_FULL)


FILES_DISK_FULL_CONDITION = Condition(
    kind=ConditionKind.FILES_DISK_FULL,
    message=msg("The disk for shared files is full: uploads are rejected and artifacts are not saved."),
    hint=msg(
        "Free disk space: delete artifacts with `holdfast prune --artifacts`, and ask groups to delete shared files."
    ),
    warning=True,
)
