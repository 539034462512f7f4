"""The contract's hooks for the container engine, on Docker and on Podman."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Engine
from holdfast.engines.container import ContainerEngine, ContainerOptions
from tests.container_daemons import IMAGE, NO_SHELL_IMAGE, ContainerDaemon

from .engine_rig import EngineHarness, Rig


class ContainerHarness(EngineHarness):
    image = IMAGE
    no_shell_image = NO_SHELL_IMAGE
    python_mounts = tuple(
        Mount(volume=HostFolder(os.path.realpath(path)), target=path, read_only=True)
        for path in ("/usr", "/lib", "/lib64")
        if Path(path).exists()
    )

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, daemon: ContainerDaemon) -> None:
        self.home = tmp_path / "home"
        self.daemon = daemon

    def make(self) -> Engine:
        return self._make_at(self.home)

    def make_other_installation(self) -> Engine:
        return self._make_at(self.home.with_name("other"))

    def _make_at(self, home: Path) -> Engine:
        options = ContainerOptions(
            socket=self.daemon.socket, daemon_interval=0.1, scratch_interval=0.1, scratch_grace=0.0
        )
        return ContainerEngine(home, options)

    def kill_daemon(self) -> None:
        self.daemon.kill()

    def start_daemon(self) -> None:
        self.daemon.start()

    def remove_by_hand(self, rig: Rig, attempt_id: str) -> None:
        assert isinstance(rig.engine, ContainerEngine)
        name = rig.engine._names.make_name(attempt_id)
        with self.daemon.client() as client:
            client.delete(f"/containers/{name}", params={"force": "1"}).raise_for_status()

    def delete_folder_by_hand(self, attempt_id: str) -> None:
        shutil.rmtree(self.home / "tasks" / attempt_id)

    def create_file(self, attempt_id: str, name: str) -> None:
        (self.home / "tasks" / attempt_id / "place.home.jovyan" / name).touch()
