"""The container engine keeps the contract on a real Podman."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.container_daemons import ContainerDaemon, PodmanService, run_daemon

from .container_harness import ContainerHarness
from .engine_contract import EngineContract
from .engine_self_stop_contract import SelfStopContract

pytestmark = pytest.mark.release  # a container of Podman takes twice as long as one of Docker


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(PodmanService) as daemon, daemon.join_network():
        yield daemon


class TestPodman(ContainerHarness, SelfStopContract, EngineContract):
    gives_gpus = False
