"""A server whose tasks run in containers: jobs, logs, sessions, holds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container_daemons import IMAGE, ContainerDaemon, Dockerd, build_root_tar, run_daemon
from tests.engines.registries import PASSWORD, USERNAME, build_image, start_registry
from tests.security.member import Member

from .server import Server

SMALL = f"image: {IMAGE}\nresources: {{cpu: 0.2, memory: 64Mi}}"


@pytest.fixture(scope="module")
def daemon() -> Iterator[ContainerDaemon]:
    with run_daemon(Dockerd) as daemon:
        yield daemon


@pytest.fixture
def server(tmp_path: Path, daemon: ContainerDaemon) -> Iterator[Server]:
    running = Server(tmp_path / "home", HOLDFAST_ENGINE_KIND="docker", HOLDFAST_ENGINE_SOCKET=daemon.socket)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def test_a_job_runs_in_a_container_and_its_log_is_kept(server: Server) -> None:
    job = server.submit(f"name: contained\n{SMALL}\ncommand: echo hello; cat /etc/passwd\n")
    assert server.wait(job["id"])["state"] == "Succeeded"
    assert server.get(f"/jobs/{job['id']}/log").text == "hello\nroot:x:0:0:root:/root:/bin/sh\n"
    assert server.get("/status").json()["engine"]["name"] == "docker"


def test_a_batch_script_runs_in_a_container(server: Server) -> None:
    lines = [
        "#!/bin/sh",
        "#SBATCH --job-name=script --mem=64M --array=5,7 --time=10",
        f"#HOLDFAST image: {IMAGE}",
        'echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT on $SLURM_CPUS_ON_NODE in $SLURM_SUBMIT_DIR"',
    ]
    job = server.submit("\n".join(lines) + "\n")
    assert server.wait(job["id"])["state"] == "Succeeded"
    logs = [server.get(f"/jobs/{job['id']}/log", task=f"main-{index}").text for index in range(2)]
    assert [log.split(" in /")[0] for log in logs] == ["5 of 2 on 1", "7 of 2 on 1"]


def test_a_task_survives_the_server_and_a_failed_one_is_held(server: Server) -> None:
    job = server.submit(f"name: hold\n{SMALL}\nhold: {{}}\ncommand: echo up; sleep 2; exit 7\n")
    wait_for_log(server, job["id"], "up")
    server.kill()
    server.start()
    end = time.monotonic() + 60
    while server.get(f"/jobs/{job['id']}").json()["state"] != "Held":
        assert time.monotonic() < end, server.get(f"/jobs/{job['id']}").json()
        time.sleep(0.05)
    with server.client() as client:
        client.post(f"/jobs/{job['id']}/stop").raise_for_status()
    end_state = server.wait(job["id"])
    assert end_state["state"] in ("Failed", "Cancelled")
    assert server.get(f"/jobs/{job['id']}/log").text.startswith("up\n")


def test_images_are_pulled_through_the_daemon(tmp_path: Path, daemon: ContainerDaemon) -> None:
    """From a registry that listens where the daemon is: in its network namespace."""
    with start_registry(tmp_path / "registry", password=True) as registry:
        registry.push_image("team/tools:1", build_image([build_root_tar(shell=True)]))
    name = f"{registry.host}/team/tools:1"
    settings = {"HOLDFAST_IMAGES_UNKNOWN": "pull", "HOLDFAST_ENGINE_KIND": "docker"}
    server = Server(tmp_path / "home", HOLDFAST_ENGINE_SOCKET=daemon.socket, **settings)
    with daemon.run_registry(tmp_path / "registry/config.yml", registry.host):
        try:
            server.start()
            check_failed_pull_marks_nothing(server, daemon, registry.host)
            add_alias(server, name, registry.host)
            good = server.submit(f"name: good\n{SMALL.replace(IMAGE, 'tools')}\ncommand: echo pulled\n")
            assert server.wait(good["id"])["state"] == "Succeeded"
            denied = server.submit(f"name: denied\n{SMALL.replace(IMAGE, name)}\ncommand: echo pulled\n")
            end = server.wait(denied["id"])
            assert (end["state"], end["started_at"]) == ("Failed", None)
            assert f"denies access to {name}" in end["message"]
            check_private_image(server, name)
            check_other_names(server, daemon, name)
            assert name in [image["name"] for image in server.get("/images").json()["items"]]
            assert name not in Member(server, "eve").call("GET", "/images").text
        finally:
            server.stop()


def check_private_image(server: Server, name: str) -> None:
    """Where pulls are disabled, a private image that is there still needs access to it."""
    server.stop()
    server.settings["HOLDFAST_IMAGES_UNKNOWN"] = "fail"
    server.start()
    for image, state in (("tools", "Succeeded"), (name, "Failed")):
        job = server.submit(f"name: again\n{SMALL.replace(IMAGE, image)}\ncommand: echo ran\n")
        assert server.wait(job["id"])["state"] == state


def check_other_names(server: Server, daemon: ContainerDaemon, name: str) -> None:
    """No other name of a private image gives access to it, and none shows its name."""
    with daemon.client() as client:
        found = client.get(f"/images/{name}/json").json()
    image_id, digest = found["Id"], found["RepoDigests"][0]
    others = [image_id, image_id[:19], image_id[7:], image_id[7:19], digest, f"{name}@{digest.partition('@')[2]}"]
    for image in others:
        job = server.submit(f"name: other\n{SMALL.replace(IMAGE, repr(image))}\ncommand: echo ran\n")
        end = server.wait(job["id"])
        assert (end["state"], end["started_at"]) == ("Failed", None), image
        assert name not in end["message"].replace(image, "")
    assert run_with_password(server, digest, PASSWORD) == "Succeeded"


def check_failed_pull_marks_nothing(server: Server, daemon: ContainerDaemon, host: str) -> None:
    """A pull with wrong credentials fails; then a local image of that name can be used by all."""
    local = f"{host}/corp/tool"
    assert run_with_password(server, local, "wrong") == "Failed"
    daemon.import_image(local, build_root_tar(shell=True))
    used = server.submit(f"name: local\n{SMALL.replace(IMAGE, local)}\ncommand: echo ran\n")
    end = server.wait(used["id"])
    assert end["state"] == "Succeeded", end["message"]


def run_with_password(server: Server, image: str, password: str) -> str:
    """Run a job with its own credentials; return its state."""
    auth = {"username": USERNAME, "password": password, "registryuri": image.partition("/")[0]}
    prerequisite = {"type": "dockerimage", "name": "img", "uri": image, "auth": auth}
    role = {"dockerImage": "img", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": ["true"]}
    job = {"protocolVersion": 2, "name": "own", "type": "job", "taskRoles": {"worker": role}}
    made = server.submit(json.dumps({**job, "prerequisites": [prerequisite]}))
    return str(server.wait(made["id"])["state"])


def add_alias(server: Server, image: str, host: str) -> None:
    secret = {"name": "team", "kind": "registry", "registry_host": host, "username": USERNAME, "value": PASSWORD}
    alias = {"name": "tools", "url": image, "pull_secret": "team", "everyone": True}
    with server.client() as client:
        client.post("/secrets", json=secret).raise_for_status()
        client.post("/image-aliases", json=alias).raise_for_status()


def wait_for_log(server: Server, job_id: str, text: str) -> None:
    end = time.monotonic() + 60
    while text not in server.get(f"/jobs/{job_id}/log").text:
        assert time.monotonic() < end, server.get(f"/jobs/{job_id}").json()
        time.sleep(0.05)
