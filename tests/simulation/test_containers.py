"""The same with Docker and Podman."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import UserError
from holdfast.core.verdicts import Fault
from holdfast.settings import load_settings
from holdfast.simulation import RemarkLevel, RemarkTopic, SimulationEnding
from holdfast.simulation.engine_choice import EngineChoice, choose_engine, find_docker_socket, parse_choice

from ..container_daemons import (
    BASH_IMAGE,
    CONTAINERS_CONF,
    Dockerd,
    build_root_tar,
    clean_up_folder,
    need_program,
    run_daemon,
)
from ..engines.ordinary import ORDINARY, as_ordinary_user, only_root_can_become_another
from ..engines.registries import build_image, start_registry
from ..preloaded import start_holdfast
from .simulations import Place

IMAGE = BASH_IMAGE


@dataclass(frozen=True)
class Containers:
    """Docker or Podman with storage of its own."""

    program: str
    env: Mapping[str, str]  # that makes the program and the simulation use it

    def call(self, *words: str, stdin: bytes = b"") -> str:
        env = {**os.environ, **self.env}
        return subprocess.run(
            [self.program, *words], input=stdin, capture_output=True, timeout=60, check=True, env=env
        ).stdout.decode()


@pytest.fixture(scope="module")
def dockerd() -> Iterator[Dockerd]:
    with run_daemon(Dockerd) as daemon:
        assert isinstance(daemon, Dockerd)
        yield daemon


@pytest.fixture(scope="module", params=["docker", pytest.param("podman", marks=pytest.mark.release)])
def installed(request: pytest.FixtureRequest) -> Iterator[Containers]:
    if request.param == "docker":
        daemon = request.getfixturevalue("dockerd")
        yield Containers("docker", {"DOCKER_HOST": f"unix://{daemon.socket}"})
        return
    need_program("podman")
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    (folder / "containers.conf").write_text(f'{CONTAINERS_CONF}tmp_dir = "{folder}/tmp"\n')
    storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(storage)
    env = {"CONTAINERS_CONF": f"{folder}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf"}
    podman = Containers("podman", env)
    try:
        podman.call("import", "-", IMAGE, stdin=build_root_tar(shell=False, programs=("bash", "sh")))
        yield podman
    finally:
        podman.call("rm", "--all", "--force")
        clean_up_folder(folder)


@pytest.fixture
def containers(installed: Containers, monkeypatch: pytest.MonkeyPatch) -> Containers:
    for name, value in installed.env.items():
        monkeypatch.setenv(name, value)
    return installed


def job(command: str, image: str = IMAGE, **more: Any) -> dict[str, Any]:
    return {"name": "contained", "image": image, "command": command, "resources": {"memory": "64Mi"}, **more}


def test_a_job_runs_in_a_container_with_all_it_expects(place: Place, containers: Containers, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mounted\n")
    found = place.run(
        job(
            'echo "$HOLDFAST_TASK $PWD $TOKEN"; cat /data/a.txt; [ "$HOLDFAST_PORT_WEB" -gt 0 ]; shopt -qo pipefail\n'
            "echo x >/data/new",
            env={"TOKEN": "<% $secrets.t %>"},
            secrets={"t": "topsecret"},
            ports={"web": 1},
            mounts=[{"source": str(tmp_path), "target": "/data"}],
        ),
        engine=containers.program,
    )
    assert {"main-0 | main-0 /home/jovyan ******", "main-0 | mounted"} <= set(found.lines)
    assert found.report.engine == containers.program
    assert found.report.has_problems
    assert found.report.diagnosis is not None
    assert found.report.diagnosis.fault is Fault.READ_ONLY
    assert containers.call("ps", "--all", "--quiet") == ""
    assert not (place.state / "simulations").exists()


def test_a_real_folder_is_not_changed_by_a_container(place: Place, containers: Containers, tmp_path: Path) -> None:
    mounts = [{"source": str(tmp_path), "target": "/data", "read_only": False}]
    found = place.run(job("echo x >/data/new", mounts=mounts), engine=containers.program)
    assert list(tmp_path.iterdir()) == []
    assert (found.report.tasks[0].code, found.report.has_problems) == (1, False)


def test_a_mount_that_contains_the_folder_for_mounts_is_refused(place: Place, containers: Containers) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a simulation by root prepares its mounts in /run")
    found = place.run(job("echo ran", mounts=[{"source": "/run", "target": "/data"}]), engine=containers.program)
    (refusal,) = (str(remark) for remark in found.remarks(RemarkTopic.EXIT) if "/run cannot be mounted" in str(remark))
    prepared = re.search("/run/holdfast-mounts-[^. ]+", refusal)
    assert not any("ran" in line for line in found.lines)
    assert prepared
    assert not Path(prepared[0]).exists()


def test_what_is_not_in_the_image_is_said_and_time_ends_it(place: Place, containers: Containers) -> None:
    command = "trap 'echo asked; exit 3' TERM\necho up\npython3 nosuch.py &\nsleep 600 & wait"
    found = place.run(job(command), engine=containers.program, timeout=2.0)
    assert [each.text for each in found.remarks(RemarkTopic.COMMAND)] == [f"The image {IMAGE} has no program python3"]
    assert found.report.ending is SimulationEnding.TIMEOUT
    assert {"main-0 | up", "main-0 | asked"} <= set(found.lines)
    missing = place.run(job("echo", "no-such-image:7"), engine=containers.program)
    assert missing.report.ending is SimulationEnding.NOT_RUN
    (said,) = missing.remarks(RemarkTopic.IMAGE)
    assert f"{containers.program} pull no-such-image:7" in said.hint
    host = place.run(job("echo", "host"), engine=containers.program)
    assert "cannot run the image host" in host.remarks(RemarkTopic.IMAGE)[0].text


def test_the_next_one_removes_what_a_killed_one_left(place: Place, containers: Containers, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job("echo up; sleep 600")))
    words = ["simulate", str(file), "--no-server", "--with", containers.program]
    env = {**os.environ, "HOLDFAST_HOME": str(place.state)}
    with start_holdfast(words, env=env, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"main-0 | up\n"
        killed.kill()
    assert containers.call("ps", "--all", "--quiet")
    assert place.run({"name": "next", "command": "echo"}).report.ending is SimulationEnding.ENDED
    assert containers.call("ps", "--all", "--quiet") == ""
    assert not (place.state / "simulations").exists()


def test_an_image_of_a_registry_is_pulled_and_removed(
    place: Place, dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From a registry that listens where the daemon is: in its network namespace. The settings choose the engine."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    settings = {"HOLDFAST_ENGINE_KIND": "docker", "HOLDFAST_ENGINE_SOCKET": dockerd.socket}
    with start_registry(tmp_path / "registry") as registry:
        registry.push_image("team/tiny:1", build_image([build_root_tar(shell=True)]))
    images = {"good": f"{registry.host}/team/tiny:1", "typo": f"{registry.host}/team/tiny:2"}
    small: dict[str, Any] = {"resources": {"memory": "64Mi"}, "command": "cat /etc/passwd"}
    roles = {name: {**small, "image": image} for name, image in images.items()}
    with dockerd.run_registry(tmp_path / "registry/config.yml", registry.host):
        found = place.run({"name": "pulled", "roles": roles}, environment=settings)
    assert "good-0 | root:x:0:0:root:/root:/bin/sh" in found.lines
    (problem,) = found.remarks(RemarkTopic.IMAGE, RemarkLevel.PROBLEM)
    assert problem.text.startswith(f"Image {registry.host}/team/tiny:2 was not found in the registry")
    with dockerd.client() as client:
        tags = [tag for image in client.get("/images/json").json() for tag in image["RepoTags"] or ()]
    assert tags
    assert not any("tiny" in tag for tag in tags)


def test_an_image_named_by_its_id_is_used_and_kept(
    place: Place, dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{dockerd.socket}")
    with dockerd.client() as client:
        id = client.get(f"/images/{IMAGE}/json").json()["Id"].removeprefix("sha256:")[:12]
        found = place.run(job("echo here", id), engine="docker", environment={"HOLDFAST_IMAGES_UNKNOWN": "pull"})
        assert "main-0 | here" in found.lines
        assert client.get(f"/images/{IMAGE}/json").status_code == 200


@only_root_can_become_another
@pytest.mark.release_after(1)
@pytest.mark.parametrize("chosen", [(), ("--with", "docker")], ids=["without a sandbox", "chosen"])
def test_an_ordinary_user_with_access_to_docker(dockerd: Dockerd, chosen: tuple[str, ...]) -> None:
    """Nothing is left, although root wrote files in the container. Without --with, no other sandbox is good enough."""
    dockerd.open_to_all()
    home = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    form = {"displayName": "form", "instanceType": "small", "image": IMAGE, "groupName": "vision"}
    command = "mkdir -p phfs/a/b; touch phfs/a/b/c ~/d; echo $PWD; trap 'echo asked; exit 3' TERM; sleep 600 & wait"
    (home / "job.json").write_text(json.dumps({**form, "command": command}))
    os.chown(home, ORDINARY, ORDINARY)
    words = [sys.executable, "-m", "holdfast", "simulate", f"{home}/job.json", "--no-server", "--timeout", "3s"]
    env = {"HOLDFAST_HOME": f"{home}/state", "DOCKER_HOST": f"unix://{dockerd.socket}"}
    try:
        done = as_ordinary_user([*words, *chosen], home, **env, HOLDFAST_SANDBOX_ISOLATION="full")
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (home / "state").exists()
    finally:
        shutil.rmtree(home)
    assert {"main-0 | /home/jovyan", "main-0 | asked"} <= set(done.stdout.splitlines())
    assert "note: Listening ports are not checked" in done.stdout
    assert ("The sandbox does not work for this user" in done.stdout) is (not chosen)
    with dockerd.client() as client:
        assert client.get("/containers/json", params={"all": "1"}).json() == []
        assert not client.get("/volumes").json()["Volumes"]


# --- which engine ---------------------------------------------------------------------------------------------------


def test_podman_that_is_missing_is_said(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="podman is not installed") as refused:
        place.run(job("echo"), engine="podman")
    assert "Install podman" in str(refused.value.hint)
    assert not (place.state / "simulations").exists()


def test_docker_that_does_not_respond_is_said(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(UserError, match=r"docker cannot be used: The container daemon at .*/none does not respond"):
        place.run(job("echo"), engine="docker")
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    with pytest.raises(UserError, match="only daemons on this machine are supported"):
        place.run(job("echo"), engine="docker")


def test_the_first_socket_that_can_be_used(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {"HOLDFAST_ENGINE_SOCKET": f"{tmp_path}/settings.sock"})
    own = {"XDG_RUNTIME_DIR": str(tmp_path)}
    (tmp_path / "docker.sock").touch()
    if not os.path.exists("/var/run/docker.sock"):  # noqa: PTH110
        assert find_docker_socket(settings, own) == f"{tmp_path}/docker.sock"
    (tmp_path / "settings.sock").touch()
    assert find_docker_socket(settings, own) == f"{tmp_path}/settings.sock"
    assert find_docker_socket(settings, {**own, "DOCKER_HOST": "unix:///other"}) == "/other"


def test_the_option_decides_then_the_settings(tmp_path: Path) -> None:
    plain = load_settings(tmp_path, {})
    docker = load_settings(tmp_path, {"HOLDFAST_ENGINE_KIND": "docker", "HOLDFAST_ENGINE_SOCKET": "/its.sock"})
    assert choose_engine(None, plain, {}) == EngineChoice("sandbox")
    assert choose_engine(None, docker, {}) == EngineChoice("docker", "/its.sock")
    assert choose_engine("sandbox", docker, {}) == EngineChoice("sandbox")
    for choice in (EngineChoice(), EngineChoice("docker", "/a b.sock"), choose_engine("podman", plain, {})):
        assert parse_choice(str(choice)) == choice
