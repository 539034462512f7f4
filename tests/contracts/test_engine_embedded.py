"""The embedded engine keeps the contract: as whoever runs the tests, as an ordinary user, and without namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engines.base import Engine
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from tests.engines.ordinary import only_root_can_become_another, run_as_ordinary_user

from .engine_contract import EngineContract


class TestSandboxed(EngineContract):
    """In the best sandbox this user can have."""

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return EmbeddedEngine(self.home, EmbeddedOptions())


class TestPlain(EngineContract):
    """Without any sandbox."""

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return EmbeddedEngine(self.home, EmbeddedOptions(isolation="off"))


@only_root_can_become_another
def test_an_ordinary_user_has_the_same() -> None:
    run_as_ordinary_user(f"{__file__}::TestSandboxed")
