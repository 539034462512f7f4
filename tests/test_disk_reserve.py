"""Room that is kept back for the server: taken whole or not at all, given up step by step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.core.job import GIB, MIB
from holdfast.disk_reserve import RELEASE_STEP_COUNT, RESERVED_FILE_COUNT, START_STEP_COUNT, DiskReserve
from holdfast.disk_space import DiskSpace, DiskThresholds, read_disk_space, require_space
from holdfast.full_disk import compute_task_limits
from holdfast.settings import load_settings

SIZE = 8 * MIB


def test_it_holds_real_room(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path / "reserve", SIZE)
    assert (reserve.read_size(), reserve.count_missing_bytes(), reserve.count_missing_files()) == (
        0,
        SIZE,
        RESERVED_FILE_COUNT,
    )
    assert reserve.fill_reserve()
    assert (reserve.read_size(), reserve.count_missing_bytes(), reserve.count_missing_files()) == (SIZE, 0, 0)


@pytest.mark.parametrize("size", [SIZE, SIZE + 1, SIZE - 1, 14_786_561])
def test_it_is_given_up_in_steps_and_the_last_are_for_a_start(tmp_path: Path, size: int) -> None:
    reserve = DiskReserve(tmp_path / "reserve", size)
    reserve.fill_reserve()
    steps = 0
    while reserve.release_step():
        steps += 1
    assert steps == RELEASE_STEP_COUNT - START_STEP_COUNT
    assert reserve.read_size() == pytest.approx(START_STEP_COUNT * size / RELEASE_STEP_COUNT, rel=0.01)
    while reserve.release_step(for_start=True):
        steps += 1
    assert steps == RELEASE_STEP_COUNT
    assert (reserve.read_size(), reserve.count_missing_files()) == (0, RESERVED_FILE_COUNT)
    assert reserve.fill_reserve()
    assert reserve.count_missing_bytes() == 0


def test_where_there_is_no_room_it_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = DiskReserve(tmp_path / "reserve", SIZE)
    reserve.fill_reserve()
    reserve.release_step()
    held = reserve.read_size()

    def no_room(fd: int, start: int, size: int) -> None:
        os.truncate(fd, SIZE)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    assert not reserve.fill_reserve()
    assert reserve.read_size() == held


def test_one_that_is_switched_off_gives_its_room_back(tmp_path: Path) -> None:
    DiskReserve(tmp_path / "reserve", SIZE).fill_reserve()
    none = DiskReserve(tmp_path / "reserve", 0)
    assert none.fill_reserve()
    assert (tmp_path / "reserve" / "bytes").stat().st_blocks == 0
    assert (none.count_missing_bytes(), none.count_missing_files()) == (0, 0)


@pytest.mark.parametrize("size", [SIZE, 0])
def test_it_remembers_when_the_disk_was_full(tmp_path: Path, size: int) -> None:
    reserve = DiskReserve(tmp_path / "reserve", size)
    assert reserve.read_seconds_since_full() is None
    assert reserve.fill_reserve()
    assert reserve.read_seconds_since_full() is None
    reserve.record_full()
    noted = tmp_path / "reserve" / "full"
    os.utime(noted, (noted.stat().st_mtime - 100,) * 2)
    assert DiskReserve(tmp_path / "reserve", size).read_seconds_since_full() == pytest.approx(100, abs=60)
    reserve.record_full()
    assert reserve.read_seconds_since_full() == pytest.approx(0, abs=60)
    os.utime(noted, (noted.stat().st_mtime + 3600,) * 2)  # the clock was set back
    assert reserve.read_seconds_since_full() is None


@pytest.mark.parametrize(
    ("total", "full", "low", "reserve"),
    [
        (300 * MIB, 15 * MIB, 30 * MIB, 15 * MIB),
        (10 * GIB, GIB // 2, GIB, 64 * MIB),
        (1000 * GIB, GIB, 4 * GIB, 64 * MIB),
    ],
)
def test_small_disks_have_smaller_marks(total: int, full: int, low: int, reserve: int) -> None:
    space, marks = DiskSpace(free=0, total=total), DiskThresholds()
    assert (
        marks.compute_full_threshold_bytes(space),
        marks.compute_low_threshold_bytes(space),
        marks.compute_reserve_bytes(space),
    ) == (full, low, reserve)
    assert marks.compute_full_threshold_files(space) == 0


def test_what_people_put_there_for_good_must_leave_room(tmp_path: Path) -> None:
    free = read_disk_space(tmp_path).free
    require_space(tmp_path, 4096, DiskThresholds(low_bytes=0, full_bytes=0))
    with pytest.raises(OSError, match="No space left"):
        require_space(tmp_path, 2 * free, DiskThresholds(low_bytes=0, full_bytes=0))


def test_limits_of_tasks_follow_the_disk_unless_they_are_set(tmp_path: Path) -> None:
    space = read_disk_space(tmp_path)
    log, size, files = compute_task_limits(tmp_path / "not" / "yet", load_settings(tmp_path, {}))
    assert (size, files) == (space.total // 2, space.total_files // 2)
    assert log == min(10 * GIB, space.total * 5 // 100)
    chosen = {"HOLDFAST_DISK_TASK_BYTES": "0", "HOLDFAST_DISK_TASK_FILES": "7", "HOLDFAST_LOGS_CAP_BYTES": str(2 * MIB)}
    assert compute_task_limits(tmp_path, load_settings(tmp_path, chosen)) == (2 * MIB, 0, 7)
