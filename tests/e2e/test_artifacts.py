"""Artifacts by a real server: there when the job has ended, whatever ended it, also when the server was killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .server import TIMEOUT, Server

LEAVE = 'mkdir ~/artifacts; echo "weights of $HOLDFAST_TASK" > ~/artifacts/model.txt; echo x > ~/artifacts/.hidden'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home", HOLDFAST_FILES_ARTIFACT_FILES="2", HOLDFAST_JOBS_GRACE="0.2")
    running.start()
    yield running
    running.stop()


def _job(*lines: str, extra: str = "") -> str:
    commands = "".join(f"  {line}\n" for line in lines)
    return f"name: artifacts\nresources: {{cpu: 0.1, memory: 64Mi}}\n{extra}command: |\n{commands}"


def _artifacts(server: Server, job_id: str) -> list[str]:
    reply = server.get(f"/jobs/{job_id}/artifacts")
    assert reply.status_code == 200, reply.text
    return [item["name"] for item in reply.json()["items"]]


def _told(server: Server, job_id: str, kind: str = "artifacts") -> list[str]:
    events = server.get(f"/jobs/{job_id}/events").json()["items"]
    return [event["message"] for event in events if event["kind"] == kind]


@pytest.mark.parametrize(
    ("end", "extra", "state"),
    [
        pytest.param("true", "", "Succeeded", marks=pytest.mark.release),
        ("exit 3", "", "Failed"),
        pytest.param("sleep 600", "time_limit: 1s\n", "Failed", marks=pytest.mark.release),
    ],
)
def test_what_a_job_leaves_is_kept(server: Server, end: str, extra: str, state: str) -> None:
    job = server.submit(_job(LEAVE, end, extra=extra))["id"]
    assert server.wait(job)["state"] == state
    assert _artifacts(server, job) == ["model.txt"]
    assert server.get(f"/jobs/{job}/artifacts/model.txt").text.startswith("weights of")
    (text,) = _told(server, job)
    assert text.startswith("1 file (")


@pytest.mark.release
def test_what_is_too_much_is_left_out_and_said(server: Server) -> None:
    job = server.submit(_job(LEAVE, "cd ~/artifacts; echo > a; echo > z; ln -s /etc/passwd stolen"))["id"]
    server.wait(job)
    assert _artifacts(server, job) == ["a", "model.txt"]
    (text,) = _told(server, job, "artifacts-incomplete")
    assert (
        "1 (exceeds the maximum number of artifact files), 1 (symbolic links are not "
        "followed), for example stolen, z" in text
    )
    assert "files.artifact_files" in text


@pytest.mark.release
def test_a_job_that_ends_while_the_server_is_down_keeps_its_own(server: Server, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    mount = f"mounts: ['{data}:{data}:rw']\n"
    wait = f"touch {data}/up; until [ -e {data}/go ]; do sleep 0.05; done; touch {data}/done"
    job = server.submit(_job(LEAVE, wait, extra=mount))["id"]
    while not (data / "up").exists():
        assert server.get(f"/jobs/{job}").json()["state"] != "Failed"
    server.kill()
    (data / "go").touch()
    until = time.monotonic() + TIMEOUT
    while not (data / "done").exists():
        assert time.monotonic() < until
    server.start()
    assert server.wait(job)["state"] == "Succeeded"
    assert _artifacts(server, job) == ["model.txt"]
    assert len(_told(server, job)) == 1
