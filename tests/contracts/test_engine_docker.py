"""The container engine keeps the contract on a real Docker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.container_daemons import ContainerDaemon, Dockerd, run_daemon

from .container_harness import ContainerHarness
from .engine_contract import EngineContract


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(Dockerd, own_network=False) as daemon:
        yield daemon


class TestDocker(ContainerHarness, EngineContract):
    pass
