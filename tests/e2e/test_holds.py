"""Failed tasks that are kept, on a real server that is killed meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.preloaded import run_holdfast

from .server import TIMEOUT, Server

SMALL = "resources: {cpu: 0.1, memory: 64Mi}\n"
CRASH = (
    f"name: crash\n{SMALL}command: |\n  echo before the crash\n  echo evidence > note\n"
    "  sleep 1000 & echo $! > pid\n  exit 3\n"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home")
    running.start()
    try:
        yield running
    finally:
        _stop_jobs(running)
        running.stop()


def held(server: Server, hold: str, text: str = CRASH) -> str:
    id = str(server.submit(text, hold=hold)["id"])
    found = server.get(f"/jobs/{id}/wait", timeout=50, held=True).json()
    assert found["state"] == "Held", found["message"]
    return id


def until_ended(server: Server, id: str) -> None:
    """Once only its files are left."""
    began = time.monotonic()
    while not hold_of(server, id)["ended"]:
        assert time.monotonic() - began < TIMEOUT
        time.sleep(0.05)


def hold_of(server: Server, id: str) -> dict[str, Any]:
    (task,) = server.get(f"/jobs/{id}/tasks").json()["items"]
    return dict(task["held"])


def ask(server: Server, id: str, **change: Any) -> dict[str, Any]:
    with server.client() as client:
        answered = client.post(f"/jobs/{id}/hold", json=change)
    assert answered.status_code == 200, answered.text
    return dict(answered.json()["tasks"][0])


def inside(server: Server, id: str, command: str) -> str:
    """What a command says inside the task."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    env |= {"HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": server.token}
    done = run_holdfast(["exec", id, "--", command], env=env, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def log_of(server: Server, id: str) -> str:
    return server.get(f"/jobs/{id}/log", follow=True, held=True).text


def used(server: Server, group: str = "default") -> float:
    groups = server.get("/capacity").json()["groups"]
    return next(float(each["used"]["cpu"]) for each in groups if each["name"] == group)


def restart(server: Server) -> None:
    server.kill()
    server.start()


def test_a_held_world_outlives_the_server(server: Server) -> None:
    id = held(server, "true")
    before = hold_of(server, id)
    assert (before["keep"], before["ended"]) == ("all", False)
    assert inside(server, id, "cat note; kill -0 $(cat pid) && echo it lives") == "evidence\nit lives\n"
    restart(server)
    assert server.get(f"/jobs/{id}").json()["state"] == "Held"
    assert hold_of(server, id) == before
    assert inside(server, id, "cat note; kill -0 $(cat pid) && echo it lives") == "evidence\nit lives\n"
    extended = ask(server, id, **{"for": "3d"})
    restart(server)
    assert hold_of(server, id)["until"] == extended["until"] > before["until"]
    log = log_of(server, id)
    assert log.startswith("before the crash\njob has finished with exit code 3\n")
    assert log.count("it will be reserved for 1 week") == 1
    with server.client() as client:
        assert client.delete(f"/jobs/{id}/hold").status_code == 202
    restart(server)
    ended = server.wait(id)
    assert (ended["state"], ended["exit_code"]) == ("Failed", 3)
    assert used(server) == 0


@pytest.mark.release
def test_a_deadline_that_passes_while_no_server_runs(server: Server) -> None:
    id = held(server, "3s")
    server.kill()
    time.sleep(3)
    server.start()
    ended = server.wait(id)
    assert (ended["state"], ended["exit_code"]) == ("Failed", 3)
    kinds = [event["kind"] for event in server.get(f"/jobs/{id}/events").json()["items"]]
    assert kinds[-3:] == ["hold-ended", "task-failed", "failed"]


@pytest.mark.release
def test_a_stop_ends_it_as_failed_as_it_was(server: Server) -> None:
    id = held(server, "true")
    with server.client() as client:
        assert client.post(f"/jobs/{id}/stop").status_code == 202
    ended = server.wait(id)
    assert (ended["state"], ended["exit_code"]) == ("Failed", 3)


@pytest.mark.release
def test_what_is_held_whole_counts_against_the_quota_and_files_do_not(server: Server) -> None:
    with server.client() as client:
        assert client.post("/groups", json={"name": "red", "quota": {"cpu": 0.1}}).status_code == 201
    id = held(server, "true", f"{CRASH}group: red\n")
    assert used(server, "red") == pytest.approx(0.1)
    second = server.submit(f"name: second\ngroup: red\n{SMALL}command: echo my turn\n")["id"]
    restart(server)
    detail = server.get(f"/jobs/{second}").json()
    assert (detail["state"], "quota" in " ".join(detail["waiting"])) == ("Pending", True)
    kept = ask(server, id, keep="files")
    assert kept["keep"] == "files"
    assert server.wait(second)["state"] == "Succeeded"
    restart(server)
    assert (hold_of(server, id)["keep"], hold_of(server, id)["ended"]) == ("files", True)
    assert used(server, "red") == 0
    assert inside(server, id, "cat note") == "evidence\n"


@pytest.mark.release
def test_files_make_room_when_the_disk_is_nearly_full(server: Server) -> None:
    files, whole = held(server, "files"), held(server, "true")
    until_ended(server, files)
    server.kill()
    server.settings["HOLDFAST_HOLD_MIN_FREE_BYTES"] = str(2**62)
    server.start()
    ended = server.wait(files)
    assert (ended["state"], ended["exit_code"]) == ("Failed", 3)
    told = [event["message"] for event in server.get(f"/jobs/{files}/events").json()["items"]]
    assert any("were deleted to free disk space" in message for message in told)
    assert server.get(f"/jobs/{whole}").json()["state"] == "Held"


@pytest.mark.release
def test_the_admins_limits(tmp_path: Path) -> None:
    limits = {"HOLDFAST_HOLD_PER_USER": "1", "HOLDFAST_HOLD_DURATION": "86400", "HOLDFAST_HOLD_LONGEST": "172800"}
    server = Server(tmp_path / "home", **limits)
    server.start()
    try:
        id = held(server, "true")
        assert "it will be reserved for 1 day" in log_of(server, id)
        second = server.wait(server.submit(CRASH, hold="true")["id"])
        assert (second["state"], second["exit_code"]) == ("Failed", 3)
        told = [event["message"] for event in server.get(f"/jobs/{second['id']}/events").json()["items"]]
        assert any("was not put on hold" in message and "the limit is 1" in message for message in told), told
        with server.client() as client:
            refused = client.post(f"/jobs/{id}/hold", json={"for": "2d"})
        assert "2 days in total" in refused.json()["error"]["message"]
    finally:
        _stop_jobs(server)
        server.stop()


def _stop_jobs(server: Server) -> None:
    """Nothing of a failing test stays behind."""
    if server.process is None or server.process.poll() is not None:
        server.start()
    with server.client() as client:
        jobs = client.get("/jobs", params={"state": "Pending,Preparing,Running,Held", "limit": 500}).json()["items"]
        if jobs:
            client.post("/jobs/stop", json={"jobs": [job["id"] for job in jobs]})
    for job in jobs:
        server.wait(job["id"])
