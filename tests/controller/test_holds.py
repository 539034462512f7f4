"""Holds with a real store, an engine that does as it is told, and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.controller.holds import HoldLimits
from holdfast.core.attempt import Debugger, JobSnapshot
from holdfast.core.holds import HoldAction, HoldRequest
from holdfast.core.job import Hold, HoldScope
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState
from holdfast.engines.base import LogStream
from tests.fake_engine import FakeEngine, FakeMachine

from .test_loop import LIMITS, Place, a_job, run, running

WEEK = timedelta(days=7)
START = datetime(2030, 1, 1, tzinfo=UTC)
CRASH = "echo hello; exit 2"


class Clock:
    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at


async def held(place: Place, keep: HoldScope = HoldScope.ALL, user: str = "ann", **fields: object) -> str:
    id = await place.submit(a_job(CRASH, hold=Hold(keep=keep), **fields), user)
    found = await place.until(id, JobState.HELD, JobState.FAILED)
    while found.state is JobState.HELD and "job has finished" not in log_of(place.engine, id):
        await asyncio.sleep(0.001)  # that is done after what is held was saved
    return id


async def ask(place: Place, id: str, what: HoldAction, **fields: object) -> bool:
    request = HoldRequest(actor="ann", at=place.controller.clock(), action=what, **fields)  # type: ignore[arg-type]
    return await place.controller.request_hold_change(id, request)


def used(place: Place) -> float:
    nodes, _ = place.controller.get_usage()
    return sum(use.node.cpu - use.free.cpu for use in nodes)


def log_of(engine: FakeEngine, id: str) -> str:
    return engine.machine.tasks[f"{id}.0.main-0.0"].read_stream(LogStream.STDOUT).decode()


def code_of(snapshot: JobSnapshot) -> int | None:
    return snapshot.exit.code if snapshot.exit else None


async def once(place: Place, clock: Clock, id: str, at: datetime, state: JobState) -> JobSnapshot:
    """The clock jumps; the job is looked at, as its timer would have it within the hour."""
    clock.at = at
    place.controller._mark_jobs(id)
    return await place.until(id, state)


def test_from_failure_to_the_deadline(tmp_path: Path) -> None:
    async def story() -> None:
        clock = Clock()
        async with running(tmp_path, clock=clock) as place:
            id = await held(place)
            assert used(place) == 1.0
            assert "job has finished with exit code 2\n" in log_of(place.engine, id)
            assert "it will be reserved for 1 week" in log_of(place.engine, id)
            await once(place, clock, id, START + WEEK - timedelta(minutes=1), JobState.HELD)
            end = await once(place, clock, id, START + WEEK, JobState.FAILED)
            assert (code_of(end), used(place)) == (2, 0.0)
            kinds = await place.kinds(id)
            assert kinds[-4:] == ["held", "hold-ended", "task-failed", "failed"]

    run(story)


def test_an_extension_outlives_a_killed_server(tmp_path: Path) -> None:
    async def story() -> None:
        clock, machine = Clock(), FakeMachine()
        async with running(tmp_path, machine, clock=clock) as place:
            id = await held(place)
            assert await ask(place, id, HoldAction.EXTEND, until=START + 2 * WEEK)
        async with running(tmp_path, machine, clock=clock) as place:
            await once(place, clock, id, START + WEEK + timedelta(days=1), JobState.HELD)
            assert used(place) == 1.0
            assert log_of(place.engine, id).count("job has finished") == 1
            end = await once(place, clock, id, START + 2 * WEEK, JobState.FAILED)
            assert code_of(end) == 2
            assert not await ask(place, id, HoldAction.RELEASE)

    run(story)


def test_a_deadline_that_passes_while_no_server_runs(tmp_path: Path) -> None:
    async def story() -> None:
        clock, machine = Clock(), FakeMachine()
        async with running(tmp_path, machine, clock=clock) as place:
            id = await held(place)
        clock.at = START + WEEK
        async with running(tmp_path, machine, clock=clock) as place:
            assert code_of(await place.until(id, JobState.FAILED)) == 2

    run(story)


def test_stop_and_release_end_it_as_failed(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            stopped, released = await held(place), await held(place)
            assert await place.controller.stop_job(stopped, "ann")
            assert await ask(place, released, HoldAction.RELEASE)
            for id in (stopped, released):
                assert code_of(await place.until(id, JobState.FAILED)) == 2

    run(story)


def test_files_only_gives_its_place_back_also_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        machine = FakeMachine()
        async with running(tmp_path, machine) as place:
            first, second = await held(place, HoldScope.FILES), await held(place)
            assert await ask(place, second, HoldAction.KEEP_FILES)
            other = await place.submit(a_job(cpu=4.0))  # all there is
            await place.until(other, JobState.RUNNING)
        async with running(tmp_path, machine) as place:
            assert used(place) == 4.0
            for id in (first, second):
                assert not machine.tasks[f"{id}.0.main-0.0"].removed
                assert await ask(place, id, HoldAction.RELEASE)
                await place.until(id, JobState.FAILED)

    run(story)


def test_what_is_held_counts_against_the_quota(tmp_path: Path) -> None:
    async def story() -> None:
        groups = [Group(name="default", quota=Quota(cpu=1))]
        async with running(tmp_path, groups=groups) as place:
            id = await held(place)
            waits = await place.submit(a_job())
            assert any("default" in reason for reason in await place.reasons(waits))
            await ask(place, id, HoldAction.KEEP_FILES)
            await place.until(waits, JobState.RUNNING)

    run(story)


def test_only_so_many_are_held(tmp_path: Path) -> None:
    async def story() -> None:
        limits = replace(LIMITS, hold=HoldLimits(per_user=2, total=3))
        async with running(tmp_path) as place:
            place.controller.planner.limits = limits
            many = await held(place, instances=3)  # of one job, at the same time
            while "Running" in (states := [task.state for task in (await place.until(many, JobState.HELD)).tasks]):
                await asyncio.sleep(0.001)
            assert sorted(states) == ["Failed", "Held", "Held"]
            await held(place, user="bob")
            refused = await held(place, user="bob")
            assert (await place.until(refused, JobState.FAILED)).attempt == 0
            assert "not-held" in await place.kinds(refused)

    run(story)


def test_an_admin_can_switch_it_off(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as place:
            place.controller.planner.limits = replace(LIMITS, hold=HoldLimits(enabled=False))
            id = await held(place)
            assert code_of(await place.until(id, JobState.FAILED)) == 2

    run(story)


def test_a_debugger_that_waits_is_told_once(tmp_path: Path) -> None:
    async def story() -> None:
        machine = FakeMachine()
        waits = Debugger(id="debugger-7", pid=7, file="/home/jovyan/train.py", line=42, since=START)
        async with running(tmp_path, machine) as place:
            id = await place.submit(a_job())
            await place.until(id, JobState.RUNNING)
            place.engine.set_debuggers(f"{id}.0.main-0.0", waits)
            place.engine.set_debuggers(f"{id}.0.main-0.0", replace(waits, line=43))
            place.engine.set_debuggers(f"{id}.0.main-0.0", replace(waits, attached=True))
            place.engine.set_debuggers(f"{id}.0.main-0.0", waits)
            assert place.controller.get_debuggers_by_task(id) == {"main-0": (waits,)}
            while "debugger-waiting" not in await place.kinds(id):
                await place.controller.wait_for_change(id, 0.01)
        async with running(tmp_path, machine) as place:
            assert place.controller.get_debuggers_by_task(id) == {"main-0": (waits,)}
            place.engine.set_debuggers(f"{id}.0.main-0.0")
            assert place.controller.get_debuggers_by_task(id) == {}
            await place.controller.stop_job(id, "ann")
            await place.until(id, JobState.CANCELLED)
            assert (await place.kinds(id)).count("debugger-waiting") == 1

    run(story)
