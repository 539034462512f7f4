"""Jobs that truly run, slow in one way each: what is found of them, and what they used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.controller.sampling import Sampler
from holdfast.core.job import MIB
from holdfast.core.states import JobState
from holdfast.core.verdicts import Efficiency, Finding, FindingKind
from holdfast.diagnosis.slowness import MIN_ONE_CORE_USAGE, MIN_THROTTLED_SHARE, MinimumTimes
from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.engines.embedded.options import EmbeddedOptions
from holdfast.services.why.efficiency import EfficiencyReports
from holdfast.store.jobs import records as job_rows
from tests.server.ssh.conftest import _stopping

from .house import House, open_house

pytestmark = pytest.mark.anyio

TRIES = 3  # where a job needs time of a processor, and the machine may be busy
TIMEOUT = 90.0  # seconds; a test that needs them has failed
MIN_COUNT = MinimumTimes(ended=2.0, running=2.0, silent=1.0)
BUSY = "timeout 3 sh -c 'while :; do :; done' || true"


@dataclass
class Place:
    house: House
    engine: EmbeddedEngine
    efficiencies: EfficiencyReports
    looks: list[float]  # seconds that each look at tasks took

    async def run(self, text: str) -> tuple[dict[FindingKind, Finding], Efficiency]:
        return await self.judged(await self.end(text))

    async def end(self, text: str) -> str:
        job = await self.house.submit(text)
        async with asyncio.timeout(TIMEOUT):
            while self.house.controller.get_active_job(job.id) is not None:
                await self.house.controller.wait_for_change(job.id, 1.0)
        return job.id

    async def run_until(self, kind: FindingKind, text: str) -> tuple[dict[FindingKind, Finding], Efficiency]:
        """Until that is found of it, while it goes on."""
        job = await self.house.submit(text)
        async with asyncio.timeout(TIMEOUT):
            while not (active := self.house.controller.get_active_job(job.id)) or active.state is not JobState.RUNNING:
                await self.house.controller.wait_for_change(job.id, 1.0)
            while kind not in (told := await self.judged(job.id))[0]:
                await asyncio.sleep(0.2)
        return told

    async def judged(self, job_id: str) -> tuple[dict[FindingKind, Finding], Efficiency]:
        findings, efficiency = await self.efficiencies.analyze_job(
            await self.house.store.read(job_rows.load_job_detail, job_id)
        )
        assert efficiency is not None
        return {finding.kind: finding for finding in findings}, efficiency


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Tasks are looked at ten times as often, and told of as soon as they ran for two seconds."""
    home = tmp_path / "home"
    engine = EmbeddedEngine(home, EmbeddedOptions(cpus=4, hidden=(str(home),)))
    async with open_house(home, engine=engine) as house:
        looks: list[float] = []
        sampler = Sampler(engine, house.services.metrics.database, close=0.5, looked=looks.append)
        house.controller.add_observation_listener(sampler.handle_observation)
        looking = asyncio.create_task(sampler.run())
        judging = EfficiencyReports(
            house.store, engine, house.services.metrics, clock=lambda: datetime.now(UTC), least=MIN_COUNT
        )
        async with _stopping(house):
            yield Place(house, engine, judging, looks)
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def job(*commands: str, **resources: object) -> str:
    return json.dumps({"name": "x", "commands": commands, "resources": resources})


async def test_jobs_that_are_slow_in_one_way_each(place: Place) -> None:
    """Side by side: none of them needs a processor for itself."""
    full = f"import time; held = b'x' * {232 * MIB}; time.sleep(600)"
    idle, late, filled, short = await asyncio.gather(
        place.run(job("echo begun", "sleep 3", cpu=2)),
        place.run(job("sleep 2.4", "echo begun", "sleep 2.4")),
        place.run_until(FindingKind.MEMORY_NEAR_LIMIT, job("echo begun", f'python3 -c "{full}"', memory="256MiB")),
        place.run(job("echo begun", "sleep 0.1", cpu=2)),
    )
    assert list(idle[0]) == [FindingKind.CPU_UNUSED]
    assert (idle[1].whole.cpu_asked, idle[1].whole.tasks) == (2, 1)
    assert (idle[1].whole.cpu_used or 0.0) < 0.5
    assert any("Request 1 core" in text for text in idle[1].advice)
    assert list(late[0]) == [FindingKind.LATE_START]
    assert late[0][FindingKind.LATE_START].values["first_output"] >= 2.0
    assert list(filled[0]) == [FindingKind.MEMORY_NEAR_LIMIT]
    assert 232 * MIB < (filled[1].whole.memory_peak or 0) <= 256 * MIB
    assert filled[1].advice == ()  # it goes on
    if short[1].whole.seconds < MIN_COUNT.ended:
        assert (short[0], short[1].advice) == ({}, ())


@pytest.mark.release
async def test_a_job_that_its_limit_holds_up(place: Place) -> None:
    if place.engine.get_health().limits == "watched":
        pytest.skip("without control groups nothing is throttled")
    for _ in range(TRIES):
        job_id = await place.end(job("echo begun", BUSY, cpu=0.1))
        used = await place.house.services.metrics.read_summary(f"{job_id}.0.main-0.0")
        assert used is not None
        assert used.throttled is not None
        if (used.throttled_share or 0.0) >= MIN_THROTTLED_SHARE:
            found, efficiency = await place.judged(job_id)
            assert list(found) == [FindingKind.CPU_THROTTLED]
            assert 0.0 < (efficiency.whole.cpu_used or 0.0) < 0.15
            return
    pytest.skip("this machine is so busy that the job does not come to its limit")


@pytest.mark.release
async def test_one_core_busy_of_two_and_a_job_that_is_well(place: Place) -> None:
    for _ in range(TRIES):
        found, efficiency = await place.run(job("echo begun", BUSY, cpu=2))
        if (efficiency.whole.cpu_used or 0.0) >= MIN_ONE_CORE_USAGE:
            assert list(found) == [FindingKind.ONE_CORE]
            break
    else:
        pytest.skip("this machine has no core to spare")
    found, efficiency = await place.run(job("echo begun", BUSY, cpu=1))
    assert found == {}
    assert efficiency.whole.cpu_used


@pytest.mark.release
async def test_one_that_still_runs_is_told_of_without_advice(place: Place) -> None:
    found, efficiency = await place.run_until(FindingKind.CPU_UNUSED, job("echo begun", "sleep 600", cpu=2))
    assert list(found) == [FindingKind.CPU_UNUSED]
    assert efficiency.whole.seconds >= MIN_COUNT.running
    assert efficiency.advice == ()
    assert place.looks


async def test_of_a_job_that_never_ran_nothing_is_told(place: Place) -> None:
    ended = await place.house.run(job("true", cpu=500))
    assert ended.state is JobState.FAILED
    record = await place.house.store.read(job_rows.load_job_detail, ended.id)
    assert await place.efficiencies.analyze_job(record) == ((), None)
