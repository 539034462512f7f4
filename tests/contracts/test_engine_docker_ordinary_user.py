"""The container engine of an ordinary user keeps the contract on root's Docker, except what health() says."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from holdfast.engines.base import Engine, SupportsExec
from holdfast.engines.container import ContainerEngine, ContainerOptions
from tests.container_daemons import IMAGE, Dockerd, run_daemon
from tests.engines.ordinary import only_root_can_become_another, run_as_ordinary_user

from .engine_contract import EngineContract, Rig

SOCKET_VARIABLE = "TESTS_DOCKER_SOCKET"

pytestmark = pytest.mark.release


@only_root_can_become_another
def test_an_ordinary_user_with_access_to_docker() -> None:
    with run_daemon(Dockerd) as daemon:
        daemon.open_to_all()
        chosen = (f"{__file__}::TestOrdinaryUser", "-k", "not artifacts and not fills_its_home")
        run_as_ordinary_user(*chosen, whole=True, **{SOCKET_VARIABLE: daemon.socket})


@pytest.mark.skipif(SOCKET_VARIABLE not in os.environ, reason="run by the test above, as another user")
class TestOrdinaryUser(EngineContract):
    image = IMAGE

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return ContainerEngine(self.home, ContainerOptions(socket=os.environ[SOCKET_VARIABLE]))

    def need_exec(self, engine: Engine) -> SupportsExec:
        pytest.skip("an ordinary user cannot join a container of root's daemon")

    def remove_by_hand(self, rig: Rig, attempt_id: str) -> None:
        assert isinstance(rig.engine, ContainerEngine)
        name = rig.engine._names.make_name(attempt_id)
        transport = httpx.HTTPTransport(uds=os.environ[SOCKET_VARIABLE])
        with httpx.Client(transport=transport, base_url="http://daemon/v1.41", timeout=60) as client:
            client.delete(f"/containers/{name}", params={"force": "1"}).raise_for_status()
