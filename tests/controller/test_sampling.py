"""When tasks are looked at, and what is kept of them: with an engine that runs nothing, and clocks moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.controller.sampling import Sampler
from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.metrics.samples import Reading, TaskSummary
from holdfast.store.metrics.database import MetricsDatabase
from tests.contracts.engine_contract import launch
from tests.fake_engine import FakeEngine

pytestmark = pytest.mark.anyio

MIB = 2**20
TIMEOUT = 20.0  # seconds; a test that needs them has failed


@dataclass
class Place:
    """An engine whose tasks use half a core each, and a sampler that hears of them."""

    database: MetricsDatabase
    engine: FakeEngine = field(default_factory=FakeEngine)
    wall: float = 1_700_000_000.0
    monotonic: float = 1000.0
    sampler: Sampler = field(init=False)
    began: dict[str, float] = field(default_factory=dict)
    looks: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)

    async def open(self) -> None:
        self.restart()
        await self.engine.open(lambda seen: self.sampler.handle_observation(seen))

    def restart(self) -> None:
        """Of the server: all that is in memory is gone."""
        self.database.close()
        self.database = MetricsDatabase(self.database.path.parent)
        self.sampler = Sampler(self.engine, self.database, wall=lambda: self.wall, monotonic=lambda: self.monotonic)

    async def start(self, id: str, *, hold: bool = False) -> None:
        seen = await self.engine.start(launch(id, "sleep 1000", hold=hold))
        self.began[id] = self.monotonic
        self.use(id)
        self.sampler.handle_observation(seen)

    def use(self, id: str) -> None:
        age = self.monotonic - self.began[id]
        self.engine.set_reading(id, Reading(at=7 + self.monotonic, cpu=age / 2, memory=10 * MIB, memory_peak=12 * MIB))

    async def forward(self, seconds: float, step: float = 1.0) -> None:
        for _ in range(int(seconds / step)):
            self.monotonic += step
            self.wall += step
            for id in self.began:
                self.use(id)
            before, asked = {id: self.database.newest.get(id) for id in self.began}, self.engine.measured
            await self.sampler.sample_due_tasks()
            seen = tuple(id for id in sorted(self.began) if self.database.newest.get(id) is not before[id])
            if self.engine.measured != asked:
                self.looks.append((self.monotonic, seen))

    async def end(self, id: str, code: int = 0) -> TaskSummary:
        """Which takes the engine to know how long it ran."""
        self.use(id)
        task = self.engine.machine.tasks[id]
        elapsed = self.monotonic - self.began.pop(id)
        used = task.reading
        self.sampler.handle_observation(
            Observation(attempt_id=id, seen=ObservedState.EXITED, code=code, elapsed=elapsed, used=used)
        )
        return await self.summary(id)

    async def summary(self, id: str) -> TaskSummary:
        found = await self.database.run_in_thread(self.database.read_summary, id)
        assert found is not None
        return found

    async def times(self, id: str) -> list[float]:
        found = await self.database.run_in_thread(self.database.read_series, id, "15m")
        assert found is not None
        return [each.at - 1_700_000_000.0 for each in found.rings["15m"]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    found = Place(MetricsDatabase(tmp_path))
    await found.open()
    yield found
    await found.engine.close()
    found.database.close()


async def test_a_task_is_looked_at_closely_at_first_and_then_every_ten_seconds(place: Place) -> None:
    await place.forward(3)
    assert place.engine.measured == 0
    await place.start("a.0.w-0.0")
    await place.forward(117)
    assert await place.times("a.0.w-0.0") == [*range(5, 66, 5), *range(75, 120, 10)]
    found = await place.database.run_in_thread(place.database.read_series, "a.0.w-0.0")
    assert found is not None
    assert {each.cpu for points in found.rings.values() for each in points} == {50}


async def test_tasks_that_are_due_are_looked_at_together_whenever_they_began(place: Place) -> None:
    for number in range(6):
        await place.start(f"a.0.w-{number}.0")
        await place.forward(1.7, step=1.7)
    await place.forward(120)
    late = [looked for at, looked in place.looks if at > 1075]
    assert sorted({id for looked in late for id in looked}) == sorted(place.began)
    assert len(late) <= 55 / 5 + 1  # at most one look every 5 seconds, not one per task


async def test_nothing_is_asked_once_nothing_runs(place: Place) -> None:
    await place.start("a.0.w-0.0")
    await place.forward(12)
    await place.end("a.0.w-0.0")
    asked = place.engine.measured
    await place.forward(100)
    assert place.engine.measured == asked
    assert place.database.newest == {}


async def test_the_end_of_a_task_is_kept_at_once_also_of_a_short_one(place: Place) -> None:
    await place.start("a.0.w-0.0")
    await place.start("a.0.w-1.0")
    await place.forward(0.5, step=0.5)
    short = await place.end("a.0.w-0.0")
    assert (short.ended, short.seconds, short.cpu, short.memory_peak) == (True, 0.5, 0.25, 12 * MIB)
    await place.forward(13)
    longer = await place.end("a.0.w-1.0")
    assert (longer.ended, longer.seconds, longer.cpu) == (True, 13.5, 6.75)
    assert longer.sampled == pytest.approx(13.5)


async def test_what_a_held_task_does_is_not_its_work(place: Place) -> None:
    await place.start("a.0.w-0.0", hold=True)
    await place.forward(17)
    place.engine.fail_task("a.0.w-0.0", 1)
    await place.sampler.sample_due_tasks()
    held = await place.summary("a.0.w-0.0")
    assert (held.ended, held.seconds, held.cpu) == (True, 17, 8.5)
    await place.forward(300)
    place.restart()
    place.sampler.handle_observation(Observation(attempt_id="a.0.w-0.0", seen=ObservedState.HELD, code=1, elapsed=17))
    await place.forward(300)
    assert await place.end("a.0.w-0.0", 1) == held


async def test_one_that_was_held_while_no_server_ran_is_known_by_what_was_seen_of_its_work(place: Place) -> None:
    await place.start("a.0.w-0.0", hold=True)
    await place.forward(20)
    place.restart()
    await place.forward(500)
    place.sampler.handle_observation(Observation(attempt_id="a.0.w-0.0", seen=ObservedState.HELD, code=1, elapsed=25))
    await place.forward(10)
    assert (await place.summary("a.0.w-0.0")).seconds == 20


async def test_a_later_server_takes_up_tasks_that_still_run(place: Place) -> None:
    await place.start("a.0.w-0.0")
    await place.forward(33)
    place.restart()
    await place.forward(7)  # nobody has told it yet
    place.sampler.handle_observation(Observation(attempt_id="a.0.w-0.0", seen=ObservedState.RUNNING, elapsed=40))
    await place.forward(40)
    summary = await place.end("a.0.w-0.0")
    assert (summary.seconds, summary.sampled, summary.cpu) == (80, pytest.approx(80), 40)


async def test_an_engine_that_fails_is_told_of_once_and_asked_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, answered = 0, asyncio.Event()

    async def falter(ids: Collection[str]) -> Mapping[str, Reading]:
        nonlocal asked
        asked += 1
        place.monotonic += 20  # due again at once
        if asked < 4:
            raise RuntimeError("no metrics today")
        answered.set()
        return {}

    monkeypatch.setattr(place.engine, "measure_tasks", falter)
    looping = asyncio.create_task(place.sampler.run())
    await asyncio.sleep(0)  # it waits for something to run
    place.sampler.handle_observation(Observation(attempt_id="a.0.w-0.0", seen=ObservedState.RUNNING, elapsed=30))
    async with asyncio.timeout(TIMEOUT):
        await answered.wait()
    looping.cancel()
    assert [record.message for record in caplog.records] == ["could not measure tasks"]
