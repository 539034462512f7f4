"""The Slurm engine keeps the contract when tasks run as the Unix users of their owners."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.attempt import Observation
from holdfast.engines.base import Engine, LaunchSpec
from holdfast.engines.slurm import SlurmEngine
from tests.slurm_cluster import SlurmCluster, run_cluster
from tests.unix_users import create_users, remove_folder

from .test_engine_slurm import MemoryContract, SlurmContract


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def user() -> Iterator[str]:
    with create_users(1) as names:
        yield names[0]


class EngineOfUser(SlurmEngine):
    """Starts all tasks of the contract as one user."""

    user = ""

    async def start(self, launch: LaunchSpec) -> Observation:
        return await super().start(replace(launch, user=self.user))

    async def revive_task(self, launch: LaunchSpec) -> None:
        await super().revive_task(replace(launch, user=self.user))


@pytest.mark.release
class TestSlurmAsUser(SlurmContract):
    @pytest.fixture
    def tmp_path(self) -> Iterator[Path]:
        """Where all users can enter and write."""
        folder = Path(tempfile.mkdtemp(prefix="holdfast-users-"))
        folder.chmod(0o777)
        before = os.umask(0)  # the contract creates folders that tasks write to
        yield folder
        os.umask(before)
        remove_folder(folder)

    @pytest.fixture(autouse=True)
    def _user(self, user: str) -> None:
        self.user = user

    def make(self) -> Engine:
        options = self._make_at(self.home)._options
        engine = EngineOfUser(self.home, replace(options, run_as="user", probe_delay=3600))
        engine.user = self.user
        return engine

    def make_other_installation(self) -> Engine:
        pytest.skip("installations beside each other are tested in test_engine_slurm")


@pytest.mark.release
class TestSlurmAsUserWithoutIsolation(MemoryContract, TestSlurmAsUser):
    """Where Slurm limits memory."""

    isolation = "none"
    has_own_folders = False
