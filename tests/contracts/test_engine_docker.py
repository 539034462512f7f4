"""The container engine keeps the contract on a real Docker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.container_daemons import ContainerDaemon, Dockerd, run_daemon

from .container_harness import ContainerHarness
from .engine_contract import EngineContract
from .engine_self_stop_contract import SelfStopContract


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(Dockerd) as daemon, daemon.join_network():
        yield daemon


@pytest.mark.release_after(1)  # logs and artifacts are read by the code of the embedded engine, which runs them all
class TestDocker(ContainerHarness, SelfStopContract, EngineContract):
    pass
