"""The checks of a Slurm cluster, on a real one: what a probe job finds on the nodes, and when it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.engines.slurm import SlurmEngine, SlurmOptions
from holdfast.engines.slurm.probe import ProbeState, Problem
from holdfast.engines.slurm.probe.probe_result import ProbeResult
from tests.contracts.engine_rig import TIMEOUT, Rig, sweep
from tests.slurm_cluster import SlurmCluster, run_cluster, wait_until

pytestmark = pytest.mark.release

BUSY = "sleep 600"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def play(cluster: SlurmCluster, tmp_path: Path) -> Callable[..., None]:
    options = SlurmOptions(
        conf=str(cluster.conf), busy_interval=0.1, calm_interval=0.5, min_interval=0.05, report_timeout=0.5,
        probe_delay=3600,
    )  # fmt: skip

    def run(scenario: Callable[[Rig, SlurmEngine], Awaitable[None]], folder: str = "shared", **more: Any) -> None:
        async def go() -> None:
            rig = Rig(lambda: SlurmEngine(tmp_path / folder, replace(options, **more)))
            await rig.open()
            try:
                assert isinstance(rig.engine, SlurmEngine)
                await asyncio.wait_for(scenario(rig, rig.engine), TIMEOUT)
            finally:
                await sweep(rig.engine)
                await rig.close()

        asyncio.run(go())

    return run


@contextmanager
def change_mounts(cluster: SlurmCluster, mount: str) -> Iterator[None]:
    """Let the node n3, the only one of the partition `short`, have other mounts."""
    cluster.kill_node("n3")
    cluster.start_node("n3", mount)
    try:
        yield
    finally:
        cluster.kill_node("n3")
        cluster.start_node("n3")


def count_probes(cluster: SlurmCluster) -> int:
    jobs = cluster.query("squeue", "-h", "-t", "all", "-o", "%j").split()
    return sum(name.startswith("hf-probe-") for name in jobs)


async def check_until_known(engine: SlurmEngine, partition: str) -> ProbeResult:
    """On a busy machine, Slurm may not start the probe job in time."""
    while True:
        await engine.complete_checks()
        result = engine._probe.find_result(partition)
        if result is not None and result.state is not ProbeState.UNKNOWN:
            return result


def test_a_probe_finds_what_a_node_has(play: Any) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        result = await check_until_known(engine, "")
        assert (result.partition, result.state, result.problem) == ("main", ProbeState.PASSED, None)
        facts = result.facts
        assert facts is not None
        assert facts.node in ("n1", "n2", "n3")
        assert (facts.uid, facts.named_uid, facts.machine) == (os.geteuid(), os.geteuid(), os.uname().machine)
        assert {"bash", "setpriv"} <= facts.tools
        assert facts.python
        assert result.clock_difference == 0
        health = engine.get_health()
        assert not health.conditions
        assert any(f"Checked on node {facts.node} of the partition main." in note for note in health.notes)
        assert not (engine._task_folders.home / "probe").exists()

    play(scenario)


def test_a_restart_repeats_no_probe_until_something_changes(play: Any, cluster: SlurmCluster) -> None:
    async def check(rig: Rig, engine: SlurmEngine) -> None:
        await engine.complete_checks()
        await engine.complete_checks()
        assert engine._probe.find_facts() is not None

    before = count_probes(cluster)
    play(check)
    play(check)
    assert count_probes(cluster) == before + 1
    play(check, qos="other")
    assert count_probes(cluster) == before + 2


def test_a_node_without_the_folder_refuses_tasks_with_that_reason(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        options = {"engine_options": {"partition": "short"}}
        with change_mounts(cluster, f"mount -t tmpfs none {engine._task_folders.home}"):
            seen = await engine.start(rig.launch("first", "exit 0", **options))
            assert seen.seen.alive  # not known yet
            first = await rig.end_of("first")
            assert first.seen is ObservedState.REFUSED
            assert "all nodes share it at the same path" in first.message
            result = await check_until_known(engine, "short")
            assert (result.state, result.problem) == (ProbeState.FAILED, Problem.NO_FOLDER)
            seen = await engine.start(rig.launch("second", "exit 0", **options))
            assert (seen.seen, seen.transient) == (ObservedState.REFUSED, True)
            assert seen.message.startswith("Nodes of the partition short do not see the shared folder.")
            conditions = engine.get_health().conditions
            assert [each.detail for each in conditions] == ["n3"]
            assert conditions[0].hint.startswith("Mount the folder of `slurm.folder` on all nodes")
            assert not conditions[0].blocks_starts  # other partitions work
        while (await check_until_known(engine, "short")).state is ProbeState.FAILED:
            pass  # a busy cluster did not start the next probe, and the result is kept
        assert not engine.get_health().conditions
        await engine.start(rig.launch("third", "exit 0", **options))
        assert (await rig.end_of("third")).code == 0

    play(scenario)


def test_a_node_that_cannot_write_to_the_folder_is_found(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        home = engine._task_folders.home
        mount = f"mount --bind {home} {home} && mount -o remount,bind,ro {home}"
        with change_mounts(cluster, mount):
            result = await check_until_known(engine, "short")
            assert (result.state, result.problem) == (ProbeState.FAILED, Problem.NOT_WRITABLE)

    play(scenario, partition="short")


def test_files_that_only_the_node_sees_are_found(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        home = engine._task_folders.home
        # The node reads the server's files, and writes to its own disk, as with a wrong overlay or cache.
        work = home.parent / "node"
        work.mkdir()
        mount = (
            f"mount -t tmpfs none {work} && mkdir {work}/upper {work}/work && "
            f"mount -t overlay none -o lowerdir={home},upperdir={work}/upper,workdir={work}/work {home}"
        )
        with change_mounts(cluster, mount):
            result = await check_until_known(engine, "short")
            assert (result.state, result.problem) == (ProbeState.FAILED, Problem.NOT_RETURNED)

    play(scenario, partition="short")


def test_a_full_cluster_leaves_the_result_unknown(play: Any, cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        number = cluster.query(
            "sbatch", "--parsable", "-p", "short", "--exclusive", "-o", "/dev/null", f"--wrap={BUSY}"
        )
        wait_until(
            lambda: cluster.query("squeue", "-h", "-j", number.strip(), "-o", "%T").strip() == "RUNNING", cluster.folder
        )
        try:
            await engine.complete_checks()
            result = engine._probe.find_result("")
            assert result is not None
            assert (result.state, result.detail) == (ProbeState.UNKNOWN, "the cluster is full")
            health = engine.get_health()
            assert not health.conditions
            assert any("not checked yet: the cluster is full" in note for note in health.notes)
            seen = await engine.start(rig.launch("a", "exit 0"))
            assert seen.seen is ObservedState.QUEUED
        finally:
            cluster.query("scancel", number.strip())
        assert (await rig.end_of("a")).code == 0
        await engine.complete_checks()
        assert engine._probe.find_facts() is not None

    play(scenario, partition="short")


def test_an_engine_that_closes_during_a_probe_leaves_no_job(play: Any, cluster: SlurmCluster) -> None:
    before = count_probes(cluster)

    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        while count_probes(cluster) == before:
            await asyncio.sleep(0.01)

    play(scenario, probe_delay=0.0)
    wait_until(lambda: not cluster.query("squeue", "-h", "-o", "%j").strip(), cluster.folder)


def test_a_partition_of_the_settings_that_does_not_exist_is_said(play: Any) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await engine.complete_checks()
        (condition,) = engine.get_health().conditions
        assert condition.message.startswith("Slurm does not accept jobs for the partition nothing")
        assert condition.detail == "the partition does not exist"

    play(scenario, partition="nothing")


def test_jobs_whose_output_does_not_come_back_mean_that_sessions_do_not_work(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall: srun starts, and gets no connection from the node."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "srun").write_text("#!/bin/sh\necho 'srun: error: timed out waiting for task launch' >&2\nexit 1\n")
    (programs / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await engine.complete_checks()
        (condition,) = engine.get_health().conditions
        assert condition.warning
        assert condition.message.startswith("Sessions do not work")
        assert engine._probe.find_facts() is not None
        await engine.start(rig.launch("a", "exit 0"))
        assert (await rig.end_of("a")).code == 0

    play(scenario)


def test_a_missing_folder_delays_nothing_and_is_said(play: Any, tmp_path: Path) -> None:
    (tmp_path / "place").write_text("not a folder")

    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await engine.complete_checks()
        (condition,) = engine.get_health().conditions
        assert condition.blocks_starts
        assert condition.message.startswith("The server cannot write to the shared folder")
        (tmp_path / "place").unlink()
        while not engine._has_folders:
            await asyncio.sleep(0.05)
        await engine.complete_checks()
        assert not engine.get_health().conditions
        await engine.start(rig.launch("a", "exit 0"))
        assert (await rig.end_of("a")).code == 0

    play(scenario, folder="place/shared", node_interval=0.1)


def test_a_folder_inside_another_installation_is_refused(play: Any) -> None:
    async def outer(rig: Rig, engine: SlurmEngine) -> None:
        pass

    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await engine.complete_checks()
        assert "inside the folder of another installation" in engine.get_health().conditions[0].message

    play(outer)
    play(scenario, folder="shared/tasks/inner")
