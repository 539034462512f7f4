"""A server with two engines on one machine, and tasks that outlive a change of its settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container_daemons import IMAGE, ContainerDaemon, Dockerd, run_daemon

from .server import Server
from .test_docker import wait_for_log

SMALL = "resources: {cpu: 0.2, memory: 64Mi}"
ON_DOCKER = f"engine: docker\nimage: {IMAGE}\n{SMALL}"


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(Dockerd) as daemon:
        yield daemon


@pytest.fixture
def server(tmp_path: Path, daemon: ContainerDaemon) -> Iterator[Server]:
    settings = {"HOLDFAST_ENGINE_OTHERS": "docker", "HOLDFAST_ENGINE_SOCKET": daemon.socket}
    running = Server(tmp_path / "home", **settings)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def engine_of(server: Server, job_id: str) -> str:
    (task,) = server.get(f"/jobs/{job_id}").json()["tasks"]
    return str(task["engine"])


def test_each_job_runs_on_the_engine_it_chose(server: Server) -> None:
    near = server.submit(f"name: near\n{SMALL}\ncommand: test -e /.dockerenv || echo sandbox\n")
    far = server.submit(f"name: far\n{ON_DOCKER}\ncommand: test -e /.dockerenv && echo container\n")
    for job, engine, text in ((near, "embedded", "sandbox\n"), (far, "docker", "container\n")):
        assert server.wait(job["id"])["state"] == "Succeeded"
        assert server.get(f"/jobs/{job['id']}/log").text == text
        assert engine_of(server, job["id"]) == engine
    names = {(image["name"], image["engine"]) for image in server.get("/images").json()["items"]}
    assert {("host", "embedded"), (IMAGE, "docker")} <= names


def test_a_group_has_its_own_engine_and_unknown_ones_are_rejected(server: Server) -> None:
    with server.client() as client:
        assert client.patch("/groups/default", json={"engine": "docker"}).json()["engine"] == "docker"
        reply = client.patch("/groups/default", json={"engine": "slurm"})
        assert reply.status_code == 400
        assert "Available engines: embedded, docker." in reply.text
        refused = client.post("/jobs", content=f"name: x\nengine: slurm\n{SMALL}\ncommand: 'true'\n")
        assert refused.status_code == 400
        assert "engine slurm is not configured" in refused.text
    job = server.submit(f"name: far\nimage: {IMAGE}\n{SMALL}\ncommand: echo container\n")
    assert server.wait(job["id"])["state"] == "Succeeded"
    assert engine_of(server, job["id"]) == "docker"


def test_tasks_and_logs_stay_when_an_engine_is_removed_from_the_settings(server: Server) -> None:
    ended = server.submit(f"name: ended\n{ON_DOCKER}\ncommand: echo earlier\n")
    assert server.wait(ended["id"])["state"] == "Succeeded"
    far = server.submit(f"name: far\n{ON_DOCKER}\ncommand: echo up; sleep 600\n")
    near = server.submit(f"name: near\n{SMALL}\ncommand: echo up; sleep 600\n")
    for job in (far, near):
        wait_for_log(server, job["id"], "up")
    server.kill()
    server.settings.pop("HOLDFAST_ENGINE_OTHERS")
    server.start()
    assert server.get(f"/jobs/{ended['id']}/log").text == "earlier\n"
    for job, engine in ((far, "docker"), (near, "embedded")):
        assert server.get(f"/jobs/{job['id']}").json()["state"] == "Running"
        assert engine_of(server, job["id"]) == engine
    with server.client() as client:
        assert client.post("/jobs", content=f"name: more\n{ON_DOCKER}\ncommand: 'true'\n").status_code == 400
        client.post(f"/jobs/{far['id']}/stop").raise_for_status()
    assert server.wait(far["id"])["state"] == "Cancelled"
    server.stop()
    server.settings["HOLDFAST_ENGINE_KIND"] = "docker"
    server.start()
    assert server.get(f"/jobs/{near['id']}").json()["state"] == "Running"
    with server.client() as client:
        client.post(f"/jobs/{near['id']}/stop").raise_for_status()
    assert server.wait(near["id"])["state"] == "Cancelled"
    assert server.get(f"/jobs/{near['id']}/log").text == "up\n"
