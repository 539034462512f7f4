"""Metrics of real tasks on a real server that is killed while they run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.metrics.samples import TaskSummary
from holdfast.store.metrics.database import MetricsDatabase

from .server import TIMEOUT, Server

pytestmark = pytest.mark.release

SIZE = "resources: {cpu: 0.5, memory: 64Mi}\n"
BUSY = f"name: busy\ncommand: 'while :; do :; done'\n{SIZE}"
HELD = f"name: held\nhold: true\ncommand: 'timeout 3 sh -c \"while :; do :; done\"; exit 3'\n{SIZE}"
LOOK = 0.2  # seconds between two looks


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path / "home")
    found.start()
    try:
        yield found
    finally:
        for job in found.get("/jobs", state="Running,Held,Pending").json()["items"]:
            with found.client() as client:
                client.post(f"/jobs/{job['id']}/stop")
            found.wait(job["id"])
        found.stop()


def until(look: Callable[[], Any]) -> Any:
    """What it finds, once that is something."""
    end = time.monotonic() + TIMEOUT
    while not (found := look()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(LOOK)
    return found


def points(server: Server, job: str, ring: str = "15m") -> list[dict[str, Any]]:
    return list(server.get(f"/jobs/{job}/metrics", ring=ring).json()["points"])


def summary(server: Server, job: str) -> TaskSummary | None:
    database = MetricsDatabase(server.home)
    try:
        return database.read_summary(f"{job}.0.main-0.0")
    finally:
        database.close()


def test_metrics_go_on_when_the_server_is_killed_and_end_with_the_task(server: Server) -> None:
    job = server.submit(BUSY)["id"]
    before = until(lambda: points(server, job))
    assert before[-1]["cpu"] > 0
    assert before[-1]["memory"] > 0
    server.kill()
    server.start()
    again = until(lambda: [each for each in points(server, job) if each["at"] > before[-1]["at"]])
    assert again[0]["cpu"] > 0
    assert points(server, job)[0] == before[0]
    with server.client() as client:
        client.post(f"/jobs/{job}/stop")
    ended = server.wait(job)
    found = summary(server, job)
    assert found is not None
    assert found.ended
    assert found.seconds >= again[0]["at"] - before[0]["at"]  # with the time in which no server ran
    assert 0 < found.sampled <= found.seconds + 0.5
    most = 0.6 if server.get("/capacity").json()["engine"]["limits"].startswith("cgroup") else os.cpu_count() or 1
    assert 0 < found.cpu <= most * found.seconds + 0.5
    shown = server.get(f"/jobs/{job}/metrics", ring="lifetime").json()
    assert (shown["final"], ended["state"]) == (True, "Cancelled")
    told = sum(each["seconds"] for each in shown["points"])
    assert told == pytest.approx(found.sampled, abs=0.3)
    worked = sum(each["cpu"] / 100 * each["seconds"] for each in shown["points"])
    assert worked == pytest.approx(found.cpu, rel=0.05, abs=0.1)


def test_a_held_task_is_counted_until_it_failed(server: Server) -> None:
    job = server.submit(HELD)["id"]
    until(lambda: server.get(f"/jobs/{job}").json()["state"] == "Held")
    held: TaskSummary = until(lambda: (found := summary(server, job)) and found.ended and found)
    assert 2.5 < held.seconds < 60
    assert held.cpu > 0
    assert server.get(f"/jobs/{job}/metrics/now").json()["tasks"][0]["metrics"] is None
    server.kill()
    server.start()
    with server.client() as client:
        client.delete(f"/jobs/{job}/hold")
    assert server.wait(job)["state"] == "Failed"
    assert summary(server, job) == held
