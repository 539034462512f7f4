"""The container engine keeps the contract on a real Podman."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engines.base import Engine
from holdfast.engines.container import ContainerEngine, ContainerOptions
from tests.container_daemons import IMAGE, ContainerDaemon, PodmanService, run_daemon

from .engine_contract import EngineContract

pytestmark = pytest.mark.release  # a container of Podman takes twice as long as one of Docker


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(PodmanService) as daemon:
        yield daemon


class TestPodman(EngineContract):
    image = IMAGE

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, daemon: ContainerDaemon) -> None:
        self.home = tmp_path / "home"
        self.daemon = daemon

    def make(self) -> Engine:
        return ContainerEngine(self.home, ContainerOptions(socket=self.daemon.socket))
