"""The embedded engine keeps the contract: as whoever runs the tests, as an ordinary user, and without namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engines.base import Engine
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions

from .engine_contract import EngineContract


class TestSandboxed(EngineContract):
    """In the best sandbox this user can have."""

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return EmbeddedEngine(self.home, EmbeddedOptions())


@pytest.mark.release
class TestPlain(EngineContract):
    """Without any sandbox."""

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return EmbeddedEngine(self.home, EmbeddedOptions(isolation="off"))
