"""What `holdfast doctor` and the status of a server say about a Slurm cluster."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.preloaded import run_holdfast
from tests.slurm_cluster import SlurmCluster, run_cluster

from .server import Server

pytestmark = pytest.mark.release

TIMEOUT = 60.0  # seconds


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def settings(tmp_path: Path, cluster: SlurmCluster) -> dict[str, str]:
    return {
        "HOLDFAST_ENGINE_KIND": "slurm",
        "HOLDFAST_SLURM_FOLDER": str(tmp_path / "shared"),
        "HOLDFAST_SLURM_CONF": str(cluster.conf),
    }


def run_doctor(home: Path, settings: dict[str, str]) -> tuple[int, dict[str, dict[str, str]]]:
    env = {**os.environ, **settings, "HOLDFAST_HOME": str(home)}
    done = run_holdfast(["doctor", "--json"], env=env, timeout=TIMEOUT)
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_doctor_checks_the_nodes_without_a_server(tmp_path: Path, settings: dict[str, str]) -> None:
    code, checks = run_doctor(tmp_path / "home", settings)
    assert code == 0
    assert "of the partition main" in checks["engine"]["remedy"]


def test_doctor_says_what_is_missing_and_what_to_do(tmp_path: Path, settings: dict[str, str]) -> None:
    code, checks = run_doctor(tmp_path / "home", {**settings, "HOLDFAST_SLURM_PARTITION": "nothing"})
    assert code == 1
    assert checks["engine"]["status"] == "fail"
    assert "does not accept jobs for the partition nothing" in checks["engine"]["message"]
    assert "Change `slurm.partition`" in checks["engine"]["remedy"]


def test_a_running_server_shows_what_the_probe_found(tmp_path: Path, settings: dict[str, str]) -> None:
    server = Server(tmp_path / "home", **settings)
    server.start()
    try:
        until = time.monotonic() + TIMEOUT
        while "Checked on node" not in " ".join((status := server.get("/status").json())["engine"]["notes"]):
            assert time.monotonic() < until, status
            time.sleep(0.1)
        assert status["conditions"] == []
        assert "of the partition main" in run_doctor(tmp_path / "home", settings)[1]["engine"]["remedy"]
    finally:
        server.stop()


def test_an_owner_without_a_unix_user_is_told_so(tmp_path: Path, settings: dict[str, str]) -> None:
    server = Server(tmp_path / "home", **settings, HOLDFAST_SLURM_RUN_AS="user")
    server.start()
    try:
        job = server.submit("name: a\nimage: host\ncommand: exit 0\n")
        ended = server.wait(job["id"])
        assert ended["state"] == "Failed"
        assert f"Tasks of {job['user']} cannot run in Slurm" in ended["message"]
    finally:
        server.stop()
