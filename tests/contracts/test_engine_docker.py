"""The container engine keeps the contract on a real Docker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engines.base import Engine
from holdfast.engines.container import ContainerEngine, ContainerOptions
from tests.container_daemons import IMAGE, ContainerDaemon, Dockerd, run_daemon

from .engine_contract import EngineContract


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(Dockerd) as daemon:
        yield daemon


@pytest.mark.release_after(1)  # logs and artifacts are read by the code of the embedded engine, which runs them all
class TestDocker(EngineContract):
    image = IMAGE

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, daemon: ContainerDaemon) -> None:
        self.home = tmp_path / "home"
        self.daemon = daemon

    def make(self) -> Engine:
        return ContainerEngine(self.home, ContainerOptions(socket=self.daemon.socket))
