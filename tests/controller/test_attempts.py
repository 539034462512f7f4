"""Attempts reach their goals whatever the engine does: no notification is needed, no failed call decides anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.controller import attempts
from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.holds import HoldAction, HoldRequest
from holdfast.core.job import Hold, JobFormat
from holdfast.core.states import JobState
from tests.fake_engine import FakeMachine, Faults

from .test_loop import Place, a_job, run, running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "TICK_INTERVAL",
        "OBSERVE_INTERVAL",
        "ORPHAN_CHECK_INTERVAL",
        "STOP_MARGIN",
        "MIN_RETRY_DELAY",
        "MAX_RETRY_DELAY",
    ):
        monkeypatch.setattr(attempts, name, 0.02)
    monkeypatch.setattr(attempts, "START_TIMEOUT", 0.2)
    monkeypatch.setattr(attempts, "CALL_TIMEOUT", 0.2)


class Deaf(Faults):
    """Nothing is notified."""

    def deliver_observation(self, notify: Callable[[Observation], None], observation: Observation) -> None:
        pass


class Failing(Faults):
    """Some calls raise, or hang, the first few times; before they take effect, or after."""

    def __init__(self, call: str, times: int, *, after: bool, hangs: bool = False) -> None:
        self.calls: Counter[str] = Counter()
        self._call, self._times, self._after, self._hangs = call, times, after, hangs

    async def before_call(self, call: str, attempt_id: str) -> None:
        self.calls[call] += 1
        if not self._after:
            await self._fail(call)

    async def after_call(self, call: str, attempt_id: str) -> None:
        if self._after:
            await self._fail(call)

    async def _fail(self, call: str) -> None:
        if call == self._call and self.calls[call] <= self._times:
            if self._hangs:
                await asyncio.Event().wait()
            raise OSError(f"{call} failed")


def story(tmp_path: Path, tell: Callable[[Place], Coroutine[Any, Any, None]], faults: Faults, **options: Any) -> None:
    async def play() -> None:
        async with running(tmp_path, **options) as place:
            place.engine.faults = faults
            ticking = asyncio.create_task(place.controller.attempts.run())
            try:
                await tell(place)
            finally:
                ticking.cancel()

    run(play)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def gone(place: Place) -> None:
    await until(lambda: not place.controller.attempts.list_tracked_attempts())
    assert all(task.removed for task in place.engine.machine.tasks.values())


async def stop_when(state: JobState, place: Place) -> None:
    """Stop a job in that state; nothing of it is left."""
    id = await place.submit(a_job())
    await place.until(id, state)
    assert await place.controller.stop_job(id, "ann")
    await place.until(id, JobState.CANCELLED)
    await gone(place)


def test_an_end_that_is_never_notified_is_found(tmp_path: Path) -> None:
    async def tell(place: Place) -> None:
        id = await place.submit(a_job())
        await place.until(id, JobState.RUNNING)
        place.engine.finish_task(f"{id}.0.main-0.0", 7)
        end = await place.until(id, JobState.FAILED)
        assert end.exit is not None
        assert end.exit.code == 7

    story(tmp_path, tell, Deaf())


def test_what_runs_is_looked_at_without_a_change_each_time(tmp_path: Path) -> None:
    async def tell(place: Place) -> None:
        faults = place.engine.faults
        assert isinstance(faults, Failing)
        id = await place.submit(a_job())
        await place.until(id, JobState.RUNNING)
        version = (await place.until(id, JobState.RUNNING)).version
        await until(lambda: faults.calls["observe"] > 5)
        assert (await place.until(id, JobState.RUNNING)).version == version

    story(tmp_path, tell, Failing("nothing", 0, after=False))


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_a_start_that_fails_runs_once(tmp_path: Path, after: bool, hangs: bool) -> None:
    async def tell(place: Place) -> None:
        id = await place.submit(a_job("exit 0"))
        end = await place.until(id, JobState.SUCCEEDED)
        assert (end.attempt, end.platform_retries) == (0, 0)
        assert list(place.engine.machine.tasks) == [f"{id}.0.main-0.0"]
        await gone(place)

    story(tmp_path, tell, Failing("start", 2, after=after, hangs=hangs))


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("call", ["stop", "remove", "observe", "list"])
def test_a_stop_and_what_follows_it_are_tried_until_they_took_effect(tmp_path: Path, call: str, hangs: bool) -> None:
    async def tell(place: Place) -> None:
        await stop_when(JobState.RUNNING, place)

    story(tmp_path, tell, Failing(call, 2, after=False, hangs=hangs))


def test_a_stop_that_did_nothing_is_asked_for_again(tmp_path: Path) -> None:
    """It answered, and no process ever heard of it."""

    async def tell(place: Place) -> None:
        id = await place.submit(a_job("trap '' TERM; sleep 100"))
        await place.until(id, JobState.RUNNING)
        forgotten, stop = [True, True], place.engine.stop

        async def forget(attempt_id: str, grace: float) -> None:
            if forgotten:
                forgotten.pop()
            else:
                await stop(attempt_id, 0)

        place.engine.stop = forget  # type: ignore[method-assign]
        place.controller.planner.limits = replace(
            place.controller.planner.limits, grace=place.controller.planner.limits.grace * 0
        )
        assert await place.controller.stop_job(id, "ann")
        await place.until(id, JobState.CANCELLED)
        assert not forgotten

    story(tmp_path, tell, Faults())


def test_a_job_that_is_stopped_before_its_task_was_started_never_runs(tmp_path: Path) -> None:
    async def tell(place: Place) -> None:
        await stop_when(JobState.PREPARING, place)
        assert not place.engine.machine.tasks

    story(tmp_path, tell, Failing("start", 10**9, after=False))


def test_an_end_while_the_log_of_a_held_task_is_read_is_not_dropped(tmp_path: Path) -> None:
    """Its command failed, and it ends for good before the cause is found."""

    async def tell(place: Place) -> None:
        reads, goes_on = asyncio.Event(), asyncio.Event()
        diagnosing = place.controller._reports._cause_finder

        async def slow(observation: Observation) -> str:
            reads.set()
            await goes_on.wait()
            if observation.seen is ObservedState.EXITED:
                await place.until(id, JobState.HELD)
            return ""

        diagnosing._find_cause = slow  # type: ignore[method-assign]
        id = await place.submit(a_job(dialect=JobFormat.OPENPAI_V2, hold=Hold()))
        await place.until(id, JobState.RUNNING)
        attempt_id = f"{id}.0.main-0.0"
        place.engine.fail_task(attempt_id, 3)
        await reads.wait()
        place.engine.finish_task(attempt_id, 3)
        goes_on.set()
        await place.until(id, JobState.HELD)
        await until(lambda: _is_ended(place, id))
        request = HoldRequest(actor="ann", at=place.controller.clock(), action=HoldAction.RELEASE)
        assert await place.controller.request_hold_change(id, request)
        end = await place.until(id, JobState.FAILED)
        assert end.exit is not None
        assert end.exit.code == 3

    story(tmp_path, tell, Faults())


def _is_ended(place: Place, job_id: str) -> bool:
    """Only its files are held."""
    snapshot = place.controller.get_active_job(job_id)
    assert snapshot is not None
    return all(task.held is not None and task.held.ended for task in snapshot.tasks)


def test_a_late_observation_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    async def tell(place: Place) -> None:
        id = await place.submit(a_job())
        await place.until(id, JobState.RUNNING)
        attempt_id = f"{id}.0.main-0.0"
        before = place.engine.machine.tasks[attempt_id].seen
        place.engine.finish_task(attempt_id, 5)
        place.controller.attempts.handle_observation(before)
        place.controller.attempts.handle_observation(
            Observation(attempt_id=attempt_id, seen=ObservedState.LOST, message="gone")
        )
        end = await place.until(id, JobState.FAILED)
        assert end.exit is not None
        assert end.exit.code == 5

    story(tmp_path, tell, Faults())


def test_what_no_job_owns_is_stopped_and_removed_also_later(tmp_path: Path) -> None:
    machine = FakeMachine()

    async def tell(place: Place) -> None:
        id = await place.submit(a_job())
        await place.until(id, JobState.RUNNING)
        launch = replace(machine.tasks[f"{id}.0.main-0.0"].launch, attempt_id="job-x.0.main-0.0")
        await place.engine.start(launch)
        await until(lambda: machine.tasks["job-x.0.main-0.0"].removed)
        assert machine.tasks[f"{id}.0.main-0.0"].seen.seen is ObservedState.RUNNING

    story(tmp_path, tell, Faults(), machine=machine)


def test_one_attempt_that_cannot_be_observed_does_not_hide_the_others(tmp_path: Path) -> None:
    class Cursed(Deaf):
        cursed = ""

        async def before_call(self, call: str, attempt_id: str) -> None:
            if call == "observe" and attempt_id == self.cursed:
                raise RuntimeError("a bug")

    faults = Cursed()

    async def tell(place: Place) -> None:
        ids = [await place.submit(a_job()) for _ in range(4)]
        for id in ids:
            await place.until(id, JobState.RUNNING)
        faults.cursed = f"{ids[1]}.0.main-0.0"
        for id in ids:
            place.engine.finish_task(f"{id}.0.main-0.0", 0)
        for id in (ids[0], ids[2], ids[3]):
            await place.until(id, JobState.SUCCEEDED)
        faults.cursed = ""
        await place.until(ids[1], JobState.SUCCEEDED)

    story(tmp_path, tell, faults)


def test_a_job_that_cannot_be_observed_is_unknown_and_never_retried_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "UNREACHABLE_TIMEOUT", 0.05)

    async def tell(place: Place) -> None:
        id = await place.submit(a_job(max_retries=3))
        await place.until(id, JobState.RUNNING)
        place.engine.faults = Failing("observe", 1000, after=False)
        unknown = await place.until(id, JobState.UNKNOWN)
        assert unknown.message == "Its tasks cannot be observed: observe failed"
        place.engine.faults = Deaf()
        await place.until(id, JobState.RUNNING)
        place.engine.finish_task(f"{id}.0.main-0.0", 0)
        await place.until(id, JobState.SUCCEEDED)
        assert list(place.engine.machine.tasks) == [f"{id}.0.main-0.0"]
        assert await place.kinds(id) == ["submitted", "placed", "started", "unreachable", "reachable", "succeeded"]

    story(tmp_path, tell, Deaf())


def test_a_job_that_cannot_be_observed_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "UNREACHABLE_TIMEOUT", 0.05)

    async def tell(place: Place) -> None:
        id = await place.submit(a_job())
        await place.until(id, JobState.RUNNING)
        place.engine.faults = Failing("observe", 1000, after=False)
        await place.until(id, JobState.UNKNOWN)
        await place.controller.stop_job(id, "ann")
        await place.until(id, JobState.CANCELLED)

    story(tmp_path, tell, Deaf())


def test_what_an_accepted_task_waits_for_is_shown(tmp_path: Path) -> None:
    async def tell(place: Place) -> None:
        place.engine.queues = "Queued: Priority"
        id = await place.submit(a_job("exit 0"))
        attempt = f"{id}.0.main-0.0"
        await until(lambda: attempt in place.engine.machine.tasks)
        await shows(place, id, "Queued: Priority")
        place.engine.prepare_task(attempt, "Pulling the image")
        await shows(place, id, "Pulling the image")
        place.engine.run_task(attempt)
        await place.until(id, JobState.SUCCEEDED)
        kinds = await place.kinds(id)
        assert kinds == ["submitted", "placed", "starting", "starting", "started", "succeeded"]

    story(tmp_path, tell, Faults())


def test_a_task_that_waits_in_the_engine_can_be_stopped(tmp_path: Path) -> None:
    async def tell(place: Place) -> None:
        place.engine.queues = "Queued: Priority"
        await stop_when(JobState.PREPARING, place)

    story(tmp_path, tell, Faults())


async def shows(place: Place, id: str, message: str) -> None:
    def is_shown() -> bool:
        snapshot = place.controller.get_active_job(id)
        return snapshot is not None and (snapshot.state, snapshot.message) == (JobState.PREPARING, message)

    await until(is_shown)
