"""The Slurm engine keeps the contract on a real Slurm."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import MIB, Resources
from holdfast.engines.base import Engine
from holdfast.engines.slurm import SlurmEngine
from tests.engines.sessions import inside
from tests.slurm_cluster import SlurmCluster, make_fast_options, run_cluster

from .engine_contract import EngineContract, EngineHarness, Rig
from .engine_rig import FOREVER, TIMEOUT, read_all
from .engine_surroundings_contract import SurroundingsContract


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


class SlurmHarness(EngineHarness):
    isolation = "bubblewrap"
    # Before the controller is killed. Else it forgets new jobs and uses their numbers again, and nodes kill those.
    waits_for_save = True

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, cluster: SlurmCluster) -> None:
        self.home = tmp_path / "home"
        self.slurm = cluster

    def make(self) -> Engine:
        return self._make_at(self.home)

    def make_other_installation(self) -> Engine:
        return self._make_at(self.home.with_name("other"))

    def _make_at(self, home: Path) -> SlurmEngine:
        options = make_fast_options(
            self.slurm,
            isolation=self.isolation,
            node_folder=str(self.home.parent),
            probe_delay=TIMEOUT,  # not for each scenario: no task waits for it, and it has tests of its own
        )
        return SlurmEngine(home, options)

    def kill_daemon(self) -> None:
        if self.waits_for_save:
            self.slurm.wait_for_save()
        self.slurm.kill_controller()

    def start_daemon(self) -> None:
        self.slurm.start_controller()

    def remove_by_hand(self, rig: Rig, attempt_id: str) -> None:
        assert isinstance(rig.engine, SlurmEngine)
        self.slurm.query("scancel", f"--name={rig.engine._names.make_name(attempt_id)}")

    def delete_folder_by_hand(self, attempt_id: str) -> None:
        shutil.rmtree(self.home / "tasks" / attempt_id, ignore_errors=True)

    def create_file(self, attempt_id: str, name: str) -> None:
        (self.home / "tasks" / attempt_id / "scratch" / name).touch()


class SlurmContract(SlurmHarness, EngineContract):
    def test_a_daemon_killed_at_any_moment_runs_every_task_once(self, tmp_path: Path) -> None:
        self.waits_for_save = False
        try:
            super().test_a_daemon_killed_at_any_moment_runs_every_task_once(tmp_path)
        finally:
            self.slurm.resume_nodes()  # Slurm drains a node that was given a number twice

    def test_a_task_killed_for_its_memory_says_so(self) -> None:
        pytest.skip("this cluster does not limit memory; see TestSlurmWithCgroups")

    def test_a_task_that_fills_its_home_is_stopped(self) -> None:
        pytest.skip("the Slurm engine does not enforce disk limits yet")

    def test_a_task_sees_its_own_gpus_and_no_others(self) -> None:
        pytest.skip("Slurm chooses and hides devices; this cluster has none")


@pytest.mark.release
class TestSlurm(SlurmContract):
    pass


class MemoryContract(SlurmHarness):
    """Where Slurm limits memory."""

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls) -> Iterator[SlurmCluster]:
        with run_cluster(cgroups=True) as cluster:
            yield cluster

    def test_a_task_killed_for_its_memory_says_so(self) -> None:
        SurroundingsContract.test_a_task_killed_for_its_memory_says_so(self)  # type: ignore[arg-type]

    def test_a_task_that_goes_on_after_one_process_was_killed_for_its_memory_has_its_own_end(self) -> None:
        """Slurm calls such a job OUT_OF_MEMORY, whatever its exit code."""

        async def scenario(rig: Rig) -> None:
            limited = Resources(cpu=1.0, memory=64 * MIB)
            for code in (0, 3):
                script = f"head -c 300M /dev/zero | tail >/dev/null || echo killed; exit {code}"
                ended = await rig.run(f"a{code}", script, resources=limited)
                assert (ended.seen, ended.code, ended.oom) == (ObservedState.EXITED, code, code != 0)
                assert await read_all(rig.log(f"a{code}")) == b"killed\n"

        self.play(scenario)

    def test_a_session_has_the_memory_limit_of_its_task(self) -> None:
        async def scenario(rig: Rig) -> None:
            await rig.start_and_wait_for(b"up", "a", FOREVER, resources=Resources(cpu=1.0, memory=64 * MIB))
            assert (await inside(rig.engine, "a", "head -c 300M /dev/zero | tail")).code != 0
            assert (await inside(rig.engine, "a", "head -c 10M /dev/zero | tail | wc -c")).out == "10485760\n"
            assert (await rig.look("a")).seen.alive

        self.play(scenario)

    def test_memory_is_measured_with_its_limit(self) -> None:
        async def scenario(rig: Rig) -> None:
            assert isinstance(rig.engine, SlurmEngine)
            await rig.start_and_wait_for(b"up", "a", FOREVER, resources=Resources(cpu=1.0, memory=64 * MIB))
            while not (readings := await rig.engine.measure_tasks(["a"])):  # its node writes them beside the task
                await asyncio.sleep(0.05)
            reading = readings["a"]
            assert reading.memory_limit == 64 * MIB
            assert 0 < reading.memory < 64 * MIB

        self.play(scenario)


@pytest.mark.release
class TestSlurmWithCgroups(MemoryContract, TestSlurm):
    """Also without isolation."""

    isolation = "none"
    has_own_folders = False


@pytest.mark.release
class TestIsolatedWithCgroups(MemoryContract):
    pass
