"""Files of held tasks make room when the disk is nearly full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.controller.disk_guard import DiskGuard, MinFree, Room, decide, files_only
from holdfast.core.attempt import Held, JobSnapshot, TaskAttempt
from holdfast.core.exits.exit import classify
from holdfast.core.holds import Ask
from holdfast.core.job import GIB, Keep
from holdfast.core.states import JobState, TaskState
from tests.core.jobs import NOON, job
from tests.services.house import TIMEOUT, House, open_house

FULL, ROOMY = Room(free=3 * GIB, total=100 * GIB), Room(free=50 * GIB, total=100 * GIB)
MIN_COUNT = MinFree(bytes=5 * GIB, percent=1)


def held(name: str, age: float, keep: Keep = Keep.FILES, *, stopping: bool = False) -> tuple[JobSnapshot, TaskAttempt]:
    since = NOON - timedelta(hours=age)
    hold = Held(since=since, until=NOON + timedelta(days=1), exit=classify(2), keep=keep, ended=keep is Keep.FILES)
    task = TaskAttempt(role="main", index=0, state=TaskState.HELD, node="n", held=hold)
    task = replace(task, stop=classify(2)) if stopping else task
    return JobSnapshot(id=name, job=job(), user="ann", submitted_at=NOON, state=JobState.HELD, tasks=(task,)), task


def test_the_oldest_files_go_first_and_it_is_said_why() -> None:
    tasks = [held("young", 1), held("old", 9), held("whole", 20, Keep.ALL), held("going", 30, stopping=True)]
    assert [snapshot.id for snapshot, _ in files_only(tasks)] == ["old", "young"]
    found = decide(tasks, FULL, MIN_COUNT, NOON)
    assert found is not None
    id, request = found
    assert (id, request.ask, request.task, request.actor, request.at) == (
        "old",
        Ask.RELEASE,
        "main-0",
        "holdfast",
        NOON,
    )
    told = "The files of main-0 were let go to make room on the disk: 3 GiB were free, 5 GiB are wanted"
    assert request.why == told


@pytest.mark.parametrize(
    ("least", "goes"),
    [
        (MinFree(), False),
        (MinFree(bytes=3 * GIB), False),
        (MinFree(bytes=3 * GIB + 1), True),
        (MinFree(percent=3), False),
        (MinFree(percent=4), True),
        (MinFree(bytes=1, percent=4), True),
        (MinFree(bytes=4 * GIB, percent=1), True),
    ],
)
def test_the_larger_of_bytes_and_percent_is_wanted(least: MinFree, goes: bool) -> None:
    assert (decide([held("a", 1)], FULL, least, NOON) is not None) == goes


def test_what_is_kept_whole_is_never_let_go_for_room() -> None:
    assert decide([held("a", 1, Keep.ALL)], Room(free=0, total=GIB), MIN_COUNT, NOON) is None


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
        while keep == "files" and not house.services.holds.of(id)[0].held.ended:
            await house.controller.changed(id, 0.01)
    house.clock.forward(60)
    return id


@pytest.mark.anyio
async def test_one_at_a_time_until_there_is_room(house: House) -> None:
    looks: list[Path] = []
    room = [FULL, FULL, ROOMY]

    def look(folder: Path) -> Room:
        looks.append(folder)
        return room.pop(0)

    guard = DiskGuard(house.controller, house.home, MIN_COUNT, clock=house.clock.now, look=look)
    whole = await _held(house, "whole", "all")
    assert await guard.guard() is None
    assert looks == []  # nothing that could make room: nobody asks the disk
    first, second, third = [await _held(house, name, "files") for name in ("one", "two", "three")]
    assert [await guard.guard() for _ in range(3)] == [first, second, None]
    assert looks == [house.home] * 3
    for id, state in (
        (first, JobState.FAILED),
        (second, JobState.FAILED),
        (third, JobState.HELD),
        (whole, JobState.HELD),
    ):
        assert (await house.until(id, JobState.HELD)).state is state
    ended = await house.services.jobs.events(house.admin, first)
    told = [(event.actor, event.message) for event in ended if event.kind == "hold-ended"]
    assert told == [
        ("holdfast", "The files of main-0 were let go to make room on the disk: 3 GiB were free, 5 GiB are wanted")
    ]


@pytest.mark.anyio
async def test_the_real_disk_is_looked_at(house: House) -> None:
    id = await _held(house, "one", "files")
    assert await DiskGuard(house.controller, house.home, MinFree(), clock=house.clock.now).guard() is None
    assert await DiskGuard(house.controller, house.home, MinFree(bytes=2**62), clock=house.clock.now).guard() == id
    assert (await house.until(id)).state is JobState.FAILED
