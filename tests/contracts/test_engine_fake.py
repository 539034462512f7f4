"""The make-believe engine keeps the contract, so that what is tested on it holds on the others."""

from __future__ import annotations

import pytest

from holdfast.engines.base import Engine
from holdfast.engines.fake import FakeEngine, FakeMachine

from .engine_contract import EngineContract


class TestFakeEngine(EngineContract):
    @pytest.fixture(autouse=True)
    def _machine(self) -> None:
        self.machine = FakeMachine()

    def make(self) -> Engine:
        return FakeEngine(self.machine)
