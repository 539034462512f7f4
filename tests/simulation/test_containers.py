"""The same with Docker and Podman, where they are installed and answer."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import UserError
from holdfast.core.verdicts import Fault
from holdfast.settings import load_settings
from holdfast.simulation import RemarkTopic, SimulationEnding
from holdfast.simulation.container_backend import ContainerBackend

from ..engines.archives import shell_entries, tar
from .simulations import Place


def call(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, input=stdin, capture_output=True, timeout=60, check=False)


@pytest.fixture(scope="module", params=["docker", "podman"])
def program(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if shutil.which(name) is None or call(name, "ps").returncode:
        pytest.skip(f"{name} is not installed here, or is not responding")
    return name


@pytest.fixture(scope="module")
def image(program: str) -> Iterator[str]:
    name = f"holdfast-test-{secrets.token_hex(4)}:1"
    files = tar(shell_entries("/bin/bash", "/bin/mkdir", "/bin/sleep"))
    made = call(program, "import", "-", name, stdin=files)
    assert made.returncode == 0, made.stderr
    if call(program, "run", "--rm", "--network", "host", name, "/bin/sh", "-c", ":").returncode:
        call(program, "rmi", name)
        pytest.skip(f"{program} cannot run a container here")
    yield name
    call(program, "rmi", "--force", name)


def job(image: str, command: str, **more: Any) -> dict[str, Any]:
    return {"name": "contained", "image": image, "command": command, "resources": {"memory": "64Mi"}, **more}


def test_a_job_runs_in_a_container_with_all_it_expects(place: Place, program: str, image: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mounted\n")
    before = call(program, "ps", "--all", "--quiet").stdout
    found = place.run(
        job(
            image,
            'echo "$HOLDFAST_TASK $PWD $TOKEN"; cat /data/a.txt; [ "$HOLDFAST_PORT_WEB" -gt 0 ]; shopt -qo pipefail\n'
            "echo x >/data/new",
            env={"TOKEN": "<% $secrets.t %>"},
            secrets={"t": "topsecret"},
            ports={"web": 1},
            mounts=[{"source": str(tmp_path), "target": "/data"}],
        ),
        engine=program,
    )
    assert {"main-0 | main-0 /home/jovyan ******", "main-0 | mounted"} <= set(found.lines)
    assert found.report.has_problems
    assert found.report.diagnosis is not None
    assert found.report.diagnosis.fault is Fault.READ_ONLY
    assert call(program, "ps", "--all", "--quiet").stdout == before


def test_what_is_not_in_the_image_is_said_and_time_ends_it(place: Place, program: str, image: str) -> None:
    found = place.run(job(image, "echo up\npython3 nosuch.py &\nsleep 600"), engine=program, timeout=2.0)
    assert [each.text for each in found.remarks(RemarkTopic.COMMAND)] == [f"The image {image} has no program python3"]
    assert found.report.ending is SimulationEnding.TIMEOUT
    assert "main-0 | up" in found.lines
    missing = place.run(job("no-such-image:7", "echo"), engine=program)
    assert missing.report.ending is SimulationEnding.NOT_RUN
    (said,) = missing.remarks(RemarkTopic.IMAGE)
    assert f"{program} pull no-such-image:7" in said.hint


def test_the_next_one_removes_what_a_killed_one_left(place: Place, program: str, image: str, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job(image, "echo up; sleep 600")))
    words = [sys.executable, "-m", "holdfast", "simulate", str(file), "--no-server", "--with", program]
    env = {**os.environ, "HOLDFAST_HOME": str(place.state)}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"main-0 | up\n"
        killed.kill()
    (home,) = (path.name for path in (place.state / "simulations").iterdir())
    ours = ("ps", "--all", "--quiet", "--filter", f"label=holdfast.simulation={home}")
    assert call(program, *ours).stdout
    assert place.run({"name": "next", "command": "echo"}).report.ending is SimulationEnding.ENDED
    assert call(program, *ours).stdout == b""
    assert not (place.state / "simulations").exists()


def test_a_program_that_is_missing_is_said(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="docker is not installed") as refused:
        place.run(job("any", "echo"), engine="docker")
    assert "Install docker" in str(refused.value.hint)


@pytest.mark.parametrize(("user", "says"), [(0, False), (1000, True)])
def test_who_may_not_watch_ports_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int, says: bool
) -> None:
    stage = ContainerBackend("docker", tmp_path, load_settings(tmp_path, {}))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert any("Listening ports are not checked" in note for note in stage.list_notes()) is says
