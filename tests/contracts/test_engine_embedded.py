"""The embedded engine keeps the contract: as whoever runs the tests, as an ordinary user, and without namespaces."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from holdfast.engines.base import Engine, Isolation
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.task_folder import TaskFolder
from tests.engines.scenarios import health_here

from .engine_contract import EngineContract, EngineHarness, Rig
from .engine_self_stop_contract import SelfStopContract


class EmbeddedHarness(EngineHarness):
    isolation = "auto"

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return self._make_at(self.home)

    def make_other_installation(self) -> Engine:
        return self._make_at(self.home.with_name("other"))

    def _make_at(self, home: Path) -> Engine:
        return EmbeddedEngine(home, EmbeddedOptions(isolation=self.isolation, scratch_interval=0.1, scratch_grace=0.0))

    def remove_by_hand(self, rig: Rig, attempt_id: str) -> None:
        pid = TaskFolder(str(self.home / "tasks" / attempt_id)).read_claim().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def delete_folder_by_hand(self, attempt_id: str) -> None:
        shutil.rmtree(self.home / "tasks" / attempt_id, ignore_errors=True)


class TestSandboxed(EmbeddedHarness, SelfStopContract, EngineContract):
    """In the best sandbox this user can have."""

    @pytest.fixture(autouse=True)
    def _folders(self) -> None:
        self.has_own_folders = health_here().isolation is not Isolation.NONE


@pytest.mark.release
class TestPlain(EmbeddedHarness, SelfStopContract, EngineContract):
    """Without any sandbox."""

    isolation = "off"
    has_own_folders = False
