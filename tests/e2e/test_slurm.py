"""A server whose tasks run in Slurm: jobs, gangs, holds, the queue, kills of the server and of slurmctld."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_cluster import SlurmCluster, run_cluster

from .server import Server

pytestmark = pytest.mark.release

SMALL = "image: host\nresources: {cpu: 1, memory: 64Mi}"
TIMEOUT = 60.0  # seconds
FINAL_STATES = ("Succeeded", "Failed", "Cancelled")
JOBS = 12
KILLS = 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def server(tmp_path: Path, cluster: SlurmCluster) -> Iterator[Server]:
    running = Server(
        tmp_path / "home",
        HOLDFAST_ENGINE_KIND="slurm",
        HOLDFAST_SLURM_FOLDER=str(tmp_path / "shared"),
        HOLDFAST_SLURM_CONF=str(cluster.conf),
    )
    running.start()
    try:
        yield running
    finally:
        running.stop()
        cluster.query("scancel", "--user=root")


def wait_for_state(server: Server, job_id: str, state: str) -> dict[str, Any]:
    end = time.monotonic() + TIMEOUT
    while (job := server.get(f"/jobs/{job_id}").json())["state"] != state:
        assert time.monotonic() < end, job
        time.sleep(0.1)
    return dict(job)


def test_a_gang_runs_on_the_nodes_that_slurm_chooses(server: Server) -> None:
    roles = "roles: {a: {command: echo $SLURMD_NODENAME}, b: {instances: 2, command: echo $SLURMD_NODENAME}}"
    job = server.submit(f"name: gang\n{SMALL}\n{roles}\n")
    ended = server.wait(job["id"])
    assert ended["state"] == "Succeeded"
    tasks = server.get(f"/jobs/{job['id']}/tasks").json()["items"]
    assert len(tasks) == 3
    for task in tasks:
        log = server.get(f"/jobs/{job['id']}/log", task=task["task"]).text
        assert task["host"] == log.strip()
    assert server.get("/status").json()["engine"]["name"] == "slurm"


def test_a_held_task_survives_the_server(server: Server) -> None:
    job = server.submit(f"name: hold\n{SMALL}\nhold: {{}}\ncommand: echo up; sleep 2; exit 7\n")
    wait_for_state(server, job["id"], "Running")
    server.kill()
    server.start()
    wait_for_state(server, job["id"], "Held")
    with server.client() as client:
        client.post(f"/jobs/{job['id']}/stop").raise_for_status()
    ended = server.wait(job["id"])
    assert (ended["state"], ended["exit_code"]) == ("Failed", 7)
    assert server.get(f"/jobs/{job['id']}/log").text.startswith("up\n")


def test_a_job_says_why_slurm_does_not_start_it(server: Server) -> None:
    whole = "image: host\nresources: {cpu: 8, memory: 64Mi}"
    busy = server.submit(f"name: busy\n{whole}\nroles: {{a: {{instances: 3, command: sleep 600}}}}\n")
    wait_for_state(server, busy["id"], "Running")
    waits = server.submit(f"name: waits\n{whole}\ncommand: echo started\n")
    end = time.monotonic() + TIMEOUT
    while "Waits in Slurm" not in server.get(f"/jobs/{waits['id']}").json()["message"]:
        assert time.monotonic() < end, server.get(f"/jobs/{waits['id']}").json()
        time.sleep(0.1)
    why = server.get(f"/jobs/{waits['id']}/why").json()
    (blocker,) = why["waiting"]["blockers"]
    assert (why["verdict"], blocker["kind"]) == ("waiting", "engine-wait")
    assert [(each["name"], each["has"]["cpu"]) for each in blocker["holders"]] == [("busy", 24)]
    with server.client() as client:
        client.post(f"/jobs/{busy['id']}/stop").raise_for_status()
    assert server.wait(waits["id"])["state"] == "Succeeded"
    large = server.submit("name: large\nimage: host\nresources: {cpu: 1, memory: 900Gi}\ncommand: exit 0\n")
    ended = server.wait(large["id"])
    assert ended["state"] == "Failed"
    assert "No node has that much memory" in ended["message"]


def test_jobs_survive_kills_of_the_server_and_of_slurmctld(
    server: Server, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Of jobs that slurmctld forgets, some are killed by their nodes: these are retried as another attempt."""
    marks = tmp_path / "marks"
    marks.mkdir()
    chance = random.Random(7)
    jobs = {}
    for number in range(JOBS):
        command = f'mktemp "{marks}/$HOLDFAST_ATTEMPT@XXXXXX" >/dev/null; echo {number}; sleep 2; exit {number % 3}'
        mounts = f"mounts: ['{marks}:{marks}:rw']"
        job = server.submit(f"name: kill-{number}\n{SMALL}\n{mounts}\ncommand: '{command}'\n")
        jobs[job["id"]] = number % 3
        if number < KILLS:
            time.sleep(chance.uniform(0, 1.0))  # the moment is the test's input
            if number % 2:
                cluster.kill_controller()
                server.kill()
                cluster.start_controller()
            else:
                server.kill()
            server.start()
    for job_id, code in jobs.items():
        while server.get(f"/jobs/{job_id}").json()["state"] not in FINAL_STATES:
            cluster.resume_drained_nodes()  # Slurm drains a node that was given a number twice
            time.sleep(0.5)
        ended = server.wait(job_id)
        assert (ended["state"], ended["exit_code"]) == ("Failed" if code else "Succeeded", code), ended
    runs = Counter(path.name.partition("@")[0] for path in marks.iterdir())
    assert set(runs.values()) == {1}, runs
    assert len(runs) >= JOBS
