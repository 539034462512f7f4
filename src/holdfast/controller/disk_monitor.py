"""Watches the state folder's disk and acts before the server itself runs out of room.

Below the low mark it warns. Below the full mark no task starts, logs of running tasks are cut, files of held tasks are
released, the tasks that fill the disk are stopped, and where none does, logs of ended tasks are cut. When the server's
own writes would fail, the reserve is given up; it is taken back when there is room again. The reasons are in
docs/dev/decisions/0027-a-full-disk-stops-nobody.md.
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
from holdfast.core.scheduling.placement import show_bytes
from holdfast.disk_reserve import DiskReserve
from holdfast.disk_space import DiskMarks, DiskSpace, read_disk_space
from holdfast.engines.base import DiskUse, Engine, LimitsDisk
from holdfast.hang_guard import HangGuard, NotResponding

log = logging.getLogger(__name__)

CHECK_INTERVAL = 1.0  # seconds
FULL_CHECK_INTERVAL = 0.25  # seconds, while it is full
FILES_DISK_INTERVAL = 30.0  # seconds, for a disk of its own that has groups' files
DISK_TIMEOUT = 10.0  # seconds for a disk to answer
RELIEF_INTERVAL = 0.1  # seconds between looks whether there is room for it
RELIEF_TIMEOUT = 10.0  # seconds that a write waits for room
STOP_INTERVAL = 3.0  # seconds until more tasks are stopped: by then the files of the last ones are removed
SEARCH_INTERVAL = 0.5  # seconds until the next search for tasks to stop when none was found
STOP_GRACE = 5.0  # seconds between TERM and KILL; none once the server's own writes would fail
KEPT_LOG_SHARE = 4  # of the full mark: as much of each log stays, at first
MIN_KEPT_LOG_SIZE = MIB // 16  # bytes
RELEASE_BELOW_BYTES = MIB // 2  # free: then a step of the reserve is given up
RELEASE_BELOW_FILES = 8
VICTIM_PERCENT = 5  # of the disk: a task that holds as much is stopped, grown or not
MIN_VICTIM_BYTES = MIB
MIN_VICTIM_FILES = 100


class DiskLevel(StrEnum):
    OK = "ok"
    LOW = "low"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskState:
    space: DiskSpace
    missing: int = 0  # bytes that the reserve does not hold: they count as used
    missing_files: int = 0

    @property
    def free(self) -> int:
        return self.space.free - self.missing

    @property
    def free_files(self) -> int:
        return self.space.free_files - self.missing_files


def judge_disk(state: DiskState, marks: DiskMarks, before: DiskLevel) -> DiskLevel:
    """A disk that was full needs some more room to count as usable again."""
    space = state.space
    full, full_files = marks.full(space), marks.full_files(space)
    if before is DiskLevel.FULL:
        full, full_files = full + full // 4, full_files + full_files // 4
    counted = space.total_files > 0
    if state.free < full or (counted and state.free_files < full_files):
        return DiskLevel.FULL
    if state.free < marks.low(space) or (counted and state.free_files < marks.low_files(space)):
        return DiskLevel.LOW
    return DiskLevel.OK


def is_critical(state: DiskState, marks: DiskMarks) -> bool:
    """The server's own writes are about to fail."""
    space = state.space
    lacks_files = space.total_files > 0 and space.free_files < marks.critical_files(space)
    return space.free < marks.critical(space) or lacks_files


def is_out_of_room(state: DiskState) -> bool:
    """The reserve is needed."""
    space = state.space
    return space.free < RELEASE_BELOW_BYTES or (space.total_files > 0 and space.free_files < RELEASE_BELOW_FILES)


def lacks_files(state: DiskState, marks: DiskMarks) -> bool:
    """It is full for the number of files, not for bytes."""
    space, mark = state.space, marks.full_files(state.space)
    return space.total_files > 0 and state.free_files < mark + mark // 4 and state.free >= marks.full(space)


def choose_victims(
    uses: Mapping[str, DiskUse], state: DiskState, marks: DiskMarks, *, critical: bool
) -> list[tuple[str, DiskUse]]:
    """The tasks to stop, those that hold most first, until enough is freed. Unless it is critical, only such that fill
    the disk themselves: another program may be the one that does."""
    space, files = state.space, lacks_files(state, marks)

    def amount(use: DiskUse) -> int:
        return use.files if files else use.bytes

    def grown(use: DiskUse) -> int:
        return use.grown_files if files else use.grown_bytes

    mark = marks.full_files(space) if files else marks.full(space)
    least = MIN_VICTIM_FILES if files else MIN_VICTIM_BYTES
    share = (space.total_files if files else space.total) * VICTIM_PERCENT // 100
    wanted = mark + mark // 4 - (state.free_files if files else state.free)
    found: list[tuple[str, DiskUse]] = []
    for attempt_id, use in sorted(uses.items(), key=lambda item: (-amount(item[1]), item[0])):
        is_filler = amount(use) >= share or grown(use) >= mark // 4
        if wanted <= 0 or amount(use) < least:
            break
        if critical or is_filler:
            found.append((attempt_id, use))
            wanted -= amount(use)
    return found


class Conditions(Protocol):
    def report_condition(self, condition: Condition) -> None: ...

    def resolve_condition(self, kind: ConditionKind) -> None: ...


class DiskMonitor:
    def __init__(
        self,
        conditions: Conditions,
        engine: Engine,
        home: Path,
        marks: DiskMarks,
        reserve: DiskReserve,
        *,
        release_held: Callable[[], Awaitable[object]],
        read: Callable[[Path], DiskSpace] = read_disk_space,
    ) -> None:
        """`release_held`: release the files of one held task, where that helps."""
        self._conditions = conditions
        self._engine = engine
        self._home = home
        self._marks = marks
        self._reserve = reserve
        self._release_held = release_held
        self._read = read
        self._reach = HangGuard("disk-monitor")
        self._turn = asyncio.Lock()
        self._relief: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[object] | None = None
        self._log_share = KEPT_LOG_SHARE
        self._next_stop = 0.0  # in the event loop's time
        self._next_cut = 0.0
        self.level = DiskLevel.OK

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.try_check()
            await asyncio.sleep(FULL_CHECK_INTERVAL if self.level is DiskLevel.FULL else CHECK_INTERVAL)

    async def relieve(self) -> None:
        """A write failed because the disk is full: make room now. Returns when there is some, or none can be made."""
        if self._relief is None or self._relief.done():
            self._relief = asyncio.ensure_future(self._make_room_now())
        await asyncio.shield(self._relief)

    async def check(self, *, urgent: bool = False) -> DiskState:
        async with self._turn:
            state = await self._look()
            critical = urgent or is_critical(state, self._marks)
            if critical and isinstance(self._engine, LimitsDisk):
                self._engine.note_disk_full()
            if is_critical(state, self._marks):  # a write may also fail because the database's own disk is full
                await self._reach.run(self._reserve.note_full, DISK_TIMEOUT)
            if (urgent or is_out_of_room(state)) and await self._give_up_reserve():
                state = await self._look()
            self.level = judge_disk(state, self._marks, self.level)
            self._report(state)
            if self.level is DiskLevel.FULL:
                await self._make_room(state, critical=critical)
                return state
            self._log_share = KEPT_LOG_SHARE
            self._next_stop = 0.0
            if state.missing or state.missing_files:
                await self._reach.run(self._reserve.take, DISK_TIMEOUT)
            return state

    async def try_check(self, *, urgent: bool = False) -> DiskState | None:
        """None where the disk does not answer."""
        try:
            return await self.check(urgent=urgent)
        except (NotResponding, OSError) as error:
            log.warning("could not see how full the disk is", extra={"event": "disk", "error": str(error)})
        except Exception:
            log.exception("could not make room on the disk", extra={"event": "disk"})
        return None

    async def _make_room_now(self) -> None:
        """Tasks that were stopped take a moment to end and to be removed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RELIEF_TIMEOUT):
                state = await self.try_check(urgent=True)
                while state is not None and is_critical(state, self._marks):
                    await asyncio.sleep(RELIEF_INTERVAL)
                    state = await self.try_check()

    async def _look(self) -> DiskState:
        return await self._reach.run(self._read_state, DISK_TIMEOUT)

    def _read_state(self) -> DiskState:
        space = self._read(self._home)
        counted = space.total_files > 0
        missing_files = self._reserve.missing_files() if counted else 0
        return DiskState(space=space, missing=self._reserve.missing(), missing_files=missing_files)

    async def _give_up_reserve(self) -> bool:
        released = await self._reach.run(self._reserve.release, DISK_TIMEOUT)
        if released:
            log.warning("gave up a part of the disk's reserve", extra={"event": "disk", "bytes": released})
        return released > 0

    def _report(self, state: DiskState) -> None:
        if self.level is DiskLevel.FULL:
            self._conditions.report_condition(describe_full(state, self._marks))
        else:
            self._conditions.resolve_condition(ConditionKind.DISK_FULL)
        if self.level is DiskLevel.LOW:
            self._conditions.report_condition(describe_low(state, self._marks))
        else:
            self._conditions.resolve_condition(ConditionKind.DISK_LOW)

    async def _make_room(self, state: DiskState, *, critical: bool) -> None:
        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.ensure_future(self._try_release_held())  # it waits for the database
        if not isinstance(self._engine, LimitsDisk):
            return
        mark = self._marks.full(state.space)
        shortage = mark + mark // 4 - state.free
        keep = max(MIN_KEPT_LOG_SIZE, mark // self._log_share)
        freed = await self._cut_logs(self._engine, keep, shortage)
        clock = asyncio.get_running_loop().time
        now = clock()
        if now < self._next_stop or (0 < shortage <= freed and not critical):
            return
        self._next_stop = now + STOP_INTERVAL
        stopped = await self._stop_fillers(self._engine, state, critical=critical)
        self._next_stop = clock() + (STOP_INTERVAL if stopped else max(SEARCH_INTERVAL, clock() - now))
        if not stopped and now >= self._next_cut:
            self._next_cut = now + STOP_INTERVAL
            await self._cut_logs(self._engine, keep, shortage, ended=True)
            self._log_share *= 2  # as long as that is not enough, less and less stays

    async def _cut_logs(self, engine: LimitsDisk, keep: int, wanted: int, *, ended: bool = False) -> int:
        freed = await engine.cut_logs(keep, wanted, ended=ended) if wanted > 0 else 0
        if freed:
            log.warning("cut logs, for the disk is full", extra={"event": "disk", "bytes": freed})
        return freed

    async def _stop_fillers(self, engine: LimitsDisk, state: DiskState, *, critical: bool) -> bool:
        uses = await engine.measure_disk()
        files = lacks_files(state, self._marks)
        victims = choose_victims(uses, state, self._marks, critical=critical)
        for attempt_id, use in victims:
            said = {"event": "disk", "attempt": attempt_id, "bytes": use.bytes, "files": use.files}
            log.warning("stopped a task, for the disk is full", extra=said)
            free = max(0, state.free_files if files else state.free)
            await engine.stop_for_disk(attempt_id, use, free, 0.0 if critical else STOP_GRACE, files=files)
        return bool(victims)

    async def _try_release_held(self) -> None:
        try:
            await self._release_held()
        except Exception:
            log.exception("could not release held files", extra={"event": "disk"})


def describe_full(state: DiskState, marks: DiskMarks) -> Condition:
    """Without current figures: each change of the text would be told again."""
    if lacks_files(state, marks):
        why = msg("it can hold almost no more files")
    else:
        why = msg("fewer than {space} are free", space=show_bytes(marks.full(state.space)))
    return Condition(
        kind=ConditionKind.DISK_FULL,
        message=msg("The server's disk is full: {why}. No task starts until there is room.", why=why),
        hint=msg("Free room: `holdfast prune` shows what takes it, and removes what is not needed."),
        blocks_starts=True,
    )


def describe_low(state: DiskState, marks: DiskMarks) -> Condition:
    low = marks.low(state.space)
    why = (
        msg("fewer than {low} are free", low=show_bytes(low))
        if state.free < low
        else msg("it can hold only a few more files")
    )
    return Condition(
        kind=ConditionKind.DISK_LOW,
        message=msg("The server's disk is nearly full: {why}.", why=why),
        hint=msg("Free room before jobs have to wait: `holdfast prune` shows what takes it."),
        warning=True,
    )


class FilesDiskMonitor:
    """Of the disk of groups' files, where files.folder puts them on another one than the state folder's."""

    def __init__(self, conditions: Conditions, folder: Path, marks: DiskMarks) -> None:
        self._conditions = conditions
        self._folder = folder
        self._marks = marks
        self._reach = HangGuard("files-disk-monitor")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with suppress(NotResponding, OSError):  # a file server that is down: others report that
                await self.check()
            await asyncio.sleep(FILES_DISK_INTERVAL)

    async def check(self) -> None:
        space = await self._reach.run(lambda: read_disk_space(self._folder), DISK_TIMEOUT)
        if judge_disk(DiskState(space=space), self._marks, DiskLevel.OK) is DiskLevel.FULL:
            self._conditions.report_condition(FILES_DISK_FULL)
        else:
            self._conditions.resolve_condition(ConditionKind.FILES_DISK_FULL)


FILES_DISK_FULL = Condition(
    kind=ConditionKind.FILES_DISK_FULL,
    message=msg("The disk of the groups' files is full: uploads are refused, and artifacts are not kept."),
    hint=msg("Free room: `holdfast prune --artifacts` removes artifacts; ask groups to remove shared files."),
    warning=True,
)
