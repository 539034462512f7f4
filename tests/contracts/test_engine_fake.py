"""The make-believe engine keeps the contract, so that what is tested on it holds on the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.metrics.samples import Reading
from holdfast.engines.base import Engine, LaunchSpec
from tests.fake_cluster import FakeCluster
from tests.fake_engine import FakeEngine, FakeMachine, Faults

from .engine_contract import EngineContract, EngineHarness, Rig

DELAY = 0.01  # seconds in the queue, and of preparation


class Spells(Faults):
    """It cannot look or act while it is unreachable."""

    is_unreachable = False

    async def before_call(self, call: str, attempt_id: str) -> None:
        if self.is_unreachable:
            raise EngineError("nothing is known")


class RepeatedReports(Spells):
    """It reports everything twice, too."""

    def deliver_observation(self, notify: Callable[[Observation], None], observation: Observation) -> None:
        for _ in range(2):
            notify(observation)


class QueueingEngine(FakeEngine):
    """It queues tasks, prepares them, and then runs them, as a cluster does."""

    queues = "Waits for a node"

    async def start(self, launch: LaunchSpec) -> Observation:
        seen = await super().start(launch)
        if seen.seen is ObservedState.QUEUED:
            asyncio.get_running_loop().call_later(DELAY, self._proceed, launch.attempt_id)
        return seen

    def _proceed(self, attempt_id: str) -> None:
        seen = self.machine.tasks[attempt_id].seen.seen
        if seen is ObservedState.QUEUED:
            self.prepare_task(attempt_id, "Pulls the image")
            asyncio.get_running_loop().call_later(DELAY, self._proceed, attempt_id)
        elif seen is ObservedState.STARTING:
            self.run_task(attempt_id)


class QuickCluster(FakeCluster):
    """It chooses the machines, too."""

    interval = DELAY
    machines = tuple(f"n{i}" for i in range(100))


class FakeHarness(EngineHarness):
    runs_programs = False
    faults: type[Spells] = Spells
    engine: type[FakeEngine] = FakeEngine

    @pytest.fixture(autouse=True)
    def _machine(self) -> None:
        self.machine = FakeMachine()
        self.spells = self.faults()

    def make(self) -> Engine:
        return self.engine(self.machine, faults=self.spells)

    def make_other_installation(self) -> Engine:
        return self.engine(FakeMachine())

    def use(self, engine: Engine, attempt_id: str) -> None:
        assert isinstance(engine, FakeEngine)
        engine.set_reading(attempt_id, Reading(at=1.0, cpu=0.5, memory=1, processes=1))

    def kill_daemon(self) -> None:
        self.spells.is_unreachable = True

    def start_daemon(self) -> None:
        self.spells.is_unreachable = False

    def remove_by_hand(self, rig: Rig, attempt_id: str) -> None:
        assert isinstance(rig.engine, FakeEngine)
        rig.engine.lose_task(attempt_id)


class TestFakeEngine(FakeHarness, EngineContract):
    pass


class TestFakeEngineThatRepeatsItself(FakeHarness, EngineContract):
    faults = RepeatedReports


class TestFakeEngineWithAQueue(FakeHarness, EngineContract):
    engine = QueueingEngine


class TestFakeEngineThatPlacesTasks(FakeHarness, EngineContract):
    engine = QuickCluster
