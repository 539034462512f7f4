"""The make-believe engine keeps the contract, so that what is tested on it holds on the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.core.attempt import Observation
from holdfast.core.errors import EngineError
from holdfast.core.metrics.samples import Reading
from holdfast.engines.base import Engine
from tests.fake_engine import FakeEngine, FakeMachine, Faults

from .engine_contract import EngineContract, EngineHarness, Rig


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


class FakeHarness(EngineHarness):
    runs_programs = False
    faults: type[Spells] = Spells

    @pytest.fixture(autouse=True)
    def _machine(self) -> None:
        self.machine = FakeMachine()
        self.spells = self.faults()

    def make(self) -> Engine:
        return FakeEngine(self.machine, faults=self.spells)

    def make_other_installation(self) -> Engine:
        return FakeEngine(FakeMachine())

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
