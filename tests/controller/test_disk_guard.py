"""Files of held tasks make room when the disk is nearly full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.controller.disk_guard import DiskGuard, MinFreeSpace, choose_hold_to_release, list_files_only_holds
from holdfast.core.attempt import JobSnapshot, TaskAttempt, TaskHold
from holdfast.core.exits.exit import classify_exit
from holdfast.core.holds import HoldAction
from holdfast.core.job import GIB, HoldScope
from holdfast.core.states import JobState, TaskState
from holdfast.disk_space import DiskSpace
from tests.core.jobs import NOON, job
from tests.services.house import TIMEOUT, House, open_house

FULL, ROOMY = DiskSpace(free=3 * GIB, total=100 * GIB), DiskSpace(free=50 * GIB, total=100 * GIB)
MIN_COUNT = MinFreeSpace(bytes=5 * GIB, percent=1)


def held(
    name: str, age: float, keep: HoldScope = HoldScope.FILES, *, stopping: bool = False
) -> tuple[JobSnapshot, TaskAttempt]:
    since = NOON - timedelta(hours=age)
    hold = TaskHold(
        since=since, until=NOON + timedelta(days=1), exit=classify_exit(2), keep=keep, ended=keep is HoldScope.FILES
    )
    task = TaskAttempt(role="main", index=0, state=TaskState.HELD, node="n", held=hold)
    task = replace(task, stop=classify_exit(2)) if stopping else task
    return JobSnapshot(id=name, job=job(), user="ann", submitted_at=NOON, state=JobState.HELD, tasks=(task,)), task


def test_the_oldest_files_go_first_and_it_is_said_why() -> None:
    tasks = [held("young", 1), held("old", 9), held("whole", 20, HoldScope.ALL), held("going", 30, stopping=True)]
    assert [snapshot.id for snapshot, _ in list_files_only_holds(tasks)] == ["old", "young"]
    found = choose_hold_to_release(tasks, FULL, MIN_COUNT, NOON)
    assert found is not None
    id, request = found
    assert (id, request.action, request.task, request.actor, request.at) == (
        "old",
        HoldAction.RELEASE,
        "main-0",
        "holdfast",
        NOON,
    )
    told = "The files of main-0 were deleted to free disk space: 3 GiB free, 5 GiB required"
    assert request.why == told


@pytest.mark.parametrize(
    ("least", "goes"),
    [
        (MinFreeSpace(), False),
        (MinFreeSpace(bytes=3 * GIB), False),
        (MinFreeSpace(bytes=3 * GIB + 1), True),
        (MinFreeSpace(percent=3), False),
        (MinFreeSpace(percent=4), True),
        (MinFreeSpace(bytes=1, percent=4), True),
        (MinFreeSpace(bytes=4 * GIB, percent=1), True),
    ],
)
def test_the_larger_of_bytes_and_percent_is_wanted(least: MinFreeSpace, goes: bool) -> None:
    assert (choose_hold_to_release([held("a", 1)], FULL, least, NOON) is not None) == goes


def test_what_is_kept_whole_is_never_let_go_for_room() -> None:
    assert choose_hold_to_release([held("a", 1, HoldScope.ALL)], DiskSpace(free=0, total=GIB), MIN_COUNT, NOON) is None


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as opened:
        opened.controller.clock = opened.clock.now
        yield opened


async def _held(house: House, name: str, keep: str) -> str:
    text = f"name: {name}\ncommand: exit 3\nhold: {{keep: {keep}}}\n"
    id = (await house.until((await house.submit(text)).id, JobState.HELD)).id
    async with asyncio.timeout(TIMEOUT):
        while keep == "files" and not house.services.holds.list_held_tasks(id)[0].held.ended:
            await house.controller.wait_for_change(id, 0.01)
    house.clock.forward(60)
    return id


@pytest.mark.anyio
async def test_one_at_a_time_until_there_is_room(house: House) -> None:
    looks: list[Path] = []
    room = [FULL, FULL, ROOMY]

    def look(folder: Path) -> DiskSpace:
        looks.append(folder)
        return room.pop(0)

    guard = DiskGuard(house.controller, house.home, MIN_COUNT, clock=house.clock.now, look=look)
    whole = await _held(house, "whole", "all")
    assert await guard.release_hold_if_full() is None
    assert looks == []  # nothing that could make room: nobody asks the disk
    first, second, third = [await _held(house, name, "files") for name in ("one", "two", "three")]
    assert [await guard.release_hold_if_full() for _ in range(3)] == [first, second, None]
    assert looks == [house.home] * 3
    for id, state in (
        (first, JobState.FAILED),
        (second, JobState.FAILED),
        (third, JobState.HELD),
        (whole, JobState.HELD),
    ):
        assert (await house.until(id, JobState.HELD)).state is state
    ended = await house.services.jobs.list_events(house.admin, first)
    told = [(event.actor, event.message) for event in ended if event.kind == "hold-ended"]
    assert told == [("holdfast", "The files of main-0 were deleted to free disk space: 3 GiB free, 5 GiB required")]


@pytest.mark.anyio
async def test_the_real_disk_is_looked_at(house: House) -> None:
    id = await _held(house, "one", "files")
    assert (
        await DiskGuard(house.controller, house.home, MinFreeSpace(), clock=house.clock.now).release_hold_if_full()
        is None
    )
    assert (
        await DiskGuard(
            house.controller, house.home, MinFreeSpace(bytes=2**62), clock=house.clock.now
        ).release_hold_if_full()
        == id
    )
    assert (await house.until(id)).state is JobState.FAILED
