"""What the monitor of the disk decides and does, at every level of free space."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.controller import disk_monitor
from holdfast.controller.disk_monitor import (
    FILES_DISK_FULL_CONDITION,
    DiskLevel,
    DiskMonitor,
    DiskState,
    FilesDiskMonitor,
    assess_disk_level,
    build_full_condition,
    build_low_condition,
    choose_tasks_to_stop,
)
from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.job import GIB, MIB
from holdfast.disk_reserve import DiskReserve
from holdfast.disk_space import DiskSpace, DiskThresholds
from holdfast.engines.base import LogUsage, SupportsDiskLimits, TaskDiskUsage
from holdfast.engines.embedded import EmbeddedEngine
from tests.fake_engine import FakeEngine

MARKS = DiskThresholds()
DISK = DiskSpace(free=50 * GIB, total=100 * GIB, free_files=500_000, total_files=1_000_000)  # full: 1 GiB, 2000 files


def state(free: int, files: int = 500_000, missing: int = 0) -> DiskState:
    return DiskState(space=replace(DISK, free=free, free_files=files), missing=missing)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (state(50 * GIB), DiskLevel.OK),
        (state(4 * GIB - 1), DiskLevel.LOW),
        (state(GIB - 1), DiskLevel.FULL),
        (state(50 * GIB, files=7999), DiskLevel.LOW),
        (state(50 * GIB, files=1999), DiskLevel.FULL),
        (state(GIB + 32 * MIB, missing=64 * MIB), DiskLevel.FULL),  # what the reserve lacks is not free
        (DiskState(space=DiskSpace(free=50 * GIB, total=100 * GIB)), DiskLevel.OK),  # files are not counted there
    ],
)
def test_levels(found: DiskState, level: DiskLevel) -> None:
    assert assess_disk_level(found, MARKS, DiskLevel.OK) is level


def test_a_full_disk_needs_some_more_room_before_it_is_usable_again() -> None:
    assert assess_disk_level(state(GIB + MIB), MARKS, DiskLevel.OK) is DiskLevel.LOW
    assert assess_disk_level(state(GIB + MIB), MARKS, DiskLevel.FULL) is DiskLevel.FULL
    assert assess_disk_level(state(2 * GIB), MARKS, DiskLevel.FULL) is DiskLevel.LOW


def chosen(uses: Mapping[str, TaskDiskUsage], found: DiskState, *, critical: bool = False) -> list[str]:
    return [id for id, _ in choose_tasks_to_stop(uses, found, MARKS, critical=critical)]


def test_the_task_that_fills_the_disk_is_stopped_and_no_other() -> None:
    uses = {
        "large": TaskDiskUsage(90 * GIB, 3),
        "grows": TaskDiskUsage(GIB, 3, grown_bytes=GIB),
        "small": TaskDiskUsage(500 * MIB, 9),
    }
    assert chosen(uses, state(MIB)) == ["large"]
    del uses["large"]
    assert chosen(uses, state(MIB)) == ["grows"]
    del uses["grows"]
    assert chosen(uses, state(MIB)) == []  # another program fills it


def test_when_the_server_itself_cannot_write_the_largest_goes_whoever_is_to_blame() -> None:
    uses = {"small": TaskDiskUsage(500 * MIB, 9), "tiny": TaskDiskUsage(4096, 1)}
    assert chosen(uses, state(0), critical=True) == ["small"]
    assert chosen({"tiny": TaskDiskUsage(4096, 1)}, state(0), critical=True) == []


def test_many_files_are_counted_where_files_ran_out() -> None:
    uses = {"many": TaskDiskUsage(MIB, 900_000), "large": TaskDiskUsage(40 * GIB, 3)}
    assert chosen(uses, state(50 * GIB, files=10)) == ["many"]


def test_as_many_are_stopped_as_it_takes() -> None:
    uses = {name: TaskDiskUsage(GIB // 2, 3, grown_bytes=GIB // 2) for name in "abcdef"}
    assert chosen(uses, state(MIB)) == ["a", "b", "c"]
    assert chosen(uses, state(GIB)) == ["a"]


def test_texts_say_what_is_wrong_and_what_to_do() -> None:
    full = build_full_condition(state(MIB), MARKS)
    assert (
        full.message == "The server's disk is full: less than 1 GiB is free. No task starts until disk space is freed."
    )
    assert full.blocks_starts
    assert "holdfast prune" in full.hint
    assert "almost no inodes are free" in build_full_condition(state(50 * GIB, files=1), MARKS).message
    assert build_low_condition(state(3 * GIB), MARKS).warning
    assert "few inodes are free" in build_low_condition(state(50 * GIB, files=5000), MARKS).message


class Told:
    def __init__(self) -> None:
        self.conditions: dict[ConditionKind, Condition] = {}

    def report_condition(self, condition: Condition) -> None:
        self.conditions[condition.kind] = condition

    def resolve_condition(self, kind: ConditionKind) -> None:
        self.conditions.pop(kind, None)


class Filled(FakeEngine):
    """An engine whose tasks fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.uses: dict[str, TaskDiskUsage] = {}
        self.logs = 0
        self.ended_logs = 0
        self.noted = 0
        self.stopped: list[tuple[str, float]] = []

    async def measure_disk(self) -> Mapping[str, TaskDiskUsage]:
        return self.uses

    async def trim_logs(self, keep: int, wanted: int, *, ended: bool = False) -> int:
        cut = self.ended_logs if ended else self.logs
        self.logs, self.ended_logs = (self.logs, 0) if ended else (0, self.ended_logs)
        return cut

    async def stop_task_for_full_disk(
        self, attempt_id: str, use: TaskDiskUsage, free: int, grace: float, *, files: bool = False
    ) -> None:
        self.stopped.append((attempt_id, grace))

    def record_disk_full(self, seconds_ago: float = 0.0) -> None:
        self.noted += 1

    async def measure_ended_tasks(self, attempt_ids: object) -> Mapping[str, int]:
        return {}

    async def measure_logs_by_job(self, timeout: float) -> tuple[Mapping[str, LogUsage], bool]:
        return {}, True


class Scene:
    def __init__(self, tmp_path: Path, marks: DiskThresholds = MARKS) -> None:
        self.told, self.engine, self.space = Told(), Filled(), DISK
        self.released = 0
        self.unused_images = 0
        self.reserve = DiskReserve(tmp_path / "reserve", 8 * MIB)
        self.monitor = DiskMonitor(
            self.told,
            self.engine,
            tmp_path,
            marks,
            self.reserve,
            release_held=self.release_held,
            remove_image=self.remove_image,
            read=lambda _: self.space,
        )

    async def release_held(self) -> None:
        self.released += 1

    async def remove_image(self) -> bool:
        self.unused_images -= 1
        return self.unused_images >= 0

    async def check(self, free: int, files: int = 500_000, *, urgent: bool = False) -> set[ConditionKind]:
        self.space = replace(DISK, free=free, free_files=files)
        await self.monitor.enforce_disk_thresholds(urgent=urgent)
        await asyncio.sleep(0)  # for what it does beside
        return set(self.told.conditions)


def test_unused_images_are_removed_first_and_already_when_space_is_low(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.unused_images = 2
        assert await scene.check(3 * GIB) == {ConditionKind.DISK_LOW}
        await scene.check(GIB // 2)
        assert (scene.unused_images, scene.released) == (0, 0)
        await scene.check(GIB // 2)
        assert scene.released == 1

    play(tmp_path, scenario)


def play(tmp_path: Path, scenario: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        await scenario(Scene(tmp_path))

    asyncio.run(go())


def test_engines_that_limit_disks_are_known_as_such(tmp_path: Path) -> None:
    assert isinstance(Filled(), SupportsDiskLimits)
    assert isinstance(EmbeddedEngine(tmp_path), SupportsDiskLimits)
    assert not isinstance(FakeEngine(), SupportsDiskLimits)


def test_conditions_come_and_go_with_the_room(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.check(50 * GIB) == set()
        assert scene.reserve.count_missing_bytes() == 0
        assert await scene.check(3 * GIB) == {ConditionKind.DISK_LOW}
        assert await scene.check(GIB // 2) == {ConditionKind.DISK_FULL}
        assert scene.released == 1
        assert await scene.check(50 * GIB) == set()

    play(tmp_path, scenario)


def test_cutting_logs_comes_before_stopping_tasks(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.engine.uses = {"a": TaskDiskUsage(90 * GIB, 3)}
        scene.engine.logs = 2 * GIB
        await scene.check(GIB // 2)
        assert scene.engine.stopped == []
        await scene.check(GIB // 2)
        assert scene.engine.stopped == [("a", 5.0)]
        await scene.check(GIB // 2)  # its files may take a moment to go
        assert len(scene.engine.stopped) == 1

    play(tmp_path, scenario)


def test_logs_of_ended_tasks_are_cut_where_no_task_fills_the_disk(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.engine.ended_logs = MIB
        await scene.check(GIB // 2)
        assert scene.engine.ended_logs == 0

    play(tmp_path, scenario)


def test_the_reserve_is_given_up_when_there_is_nothing_left_and_taken_back(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.check(50 * GIB)
        await scene.check(GIB // 2)
        assert scene.reserve.count_missing_bytes() == 0
        assert scene.engine.noted == 0
        assert scene.reserve.read_seconds_since_full() is None
        await scene.check(0)
        assert scene.engine.noted == 1
        assert scene.reserve.read_seconds_since_full() is not None
        assert scene.reserve.count_missing_bytes() == MIB
        await scene.check(50 * GIB, files=0)
        assert scene.reserve.count_missing_bytes() == 2 * MIB
        await scene.check(GIB // 2, urgent=True)
        assert scene.reserve.count_missing_bytes() == 3 * MIB
        await scene.check(50 * GIB)
        assert (scene.reserve.count_missing_bytes(), scene.reserve.count_missing_files()) == (0, 0)

    play(tmp_path, scenario)


def test_a_write_that_failed_waits_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_monitor, "STOP_INTERVAL", 3600.0)  # not waited for where no task was found to stop

    async def scenario(scene: Scene) -> None:
        await scene.check(0)
        scene.engine.uses = {"a": TaskDiskUsage(90 * GIB, 3)}
        relief = asyncio.ensure_future(asyncio.gather(scene.monitor.free_space_now(), scene.monitor.free_space_now()))
        while not scene.engine.stopped:
            await asyncio.sleep(0.01)
        assert scene.engine.stopped == [("a", 0.0)]
        assert not relief.done()
        scene.space = DISK
        await relief
        assert scene.told.conditions == {}

    play(tmp_path, scenario)


def test_a_task_is_stopped_at_once_although_another_program_filled_the_disk_before(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.check(0)
        assert scene.engine.stopped == []
        await scene.check(50 * GIB)
        scene.engine.uses = {"a": TaskDiskUsage(90 * GIB, 3)}
        await scene.check(0)
        assert scene.engine.stopped == [("a", 0.0)]

    play(tmp_path, scenario)


def test_a_disk_that_does_not_answer_is_looked_at_again(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        def fail(folder: Path) -> DiskSpace:
            raise OSError("gone")

        scene.monitor._read = fail
        await scene.monitor.free_space_now()
        assert scene.told.conditions == {}

    play(tmp_path, scenario)


def test_another_disk_of_groups_files_is_warned_of(tmp_path: Path) -> None:
    async def scenario() -> None:
        told = Told()
        await FilesDiskMonitor(told, tmp_path, MARKS).check_disk()
        assert told.conditions == {}
        told.report_condition(FILES_DISK_FULL_CONDITION)
        await FilesDiskMonitor(told, tmp_path, MARKS).check_disk()
        assert told.conditions == {}
        assert FILES_DISK_FULL_CONDITION.warning
        assert not FILES_DISK_FULL_CONDITION.blocks_starts

    asyncio.run(scenario())
