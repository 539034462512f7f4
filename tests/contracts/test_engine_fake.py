"""The make-believe engine keeps the contract, so that what is tested on it holds on the others."""

from __future__ import annotations

import pytest

from holdfast.core.metrics.samples import Reading
from holdfast.engines.base import Engine
from tests.fake_engine import FakeEngine, FakeMachine

from .engine_contract import EngineContract


class TestFakeEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _machine(self) -> None:
        self.machine = FakeMachine()

    def make(self) -> Engine:
        return FakeEngine(self.machine)

    def use(self, engine: Engine, attempt_id: str) -> None:
        assert isinstance(engine, FakeEngine)
        engine.set_reading(attempt_id, Reading(at=1.0, cpu=0.5, memory=1, processes=1))
