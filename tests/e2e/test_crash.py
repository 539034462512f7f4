"""The server is killed at random moments, over and over, while jobs are submitted, run, retried and stopped.

Afterwards: no acknowledged job is lost, none ran twice, every exit code and every log byte is right.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from .server import TIMEOUT, Server

LONG_RUN = 1200  # seconds


@dataclass
class Expected:
    key: str
    kind: str  # plain, retried or stopped
    code: int
    id: str = ""
    stop_acknowledged: bool = False

    def text(self, marks: Path) -> str:
        """Each run leaves a mark outside the sandbox: more than one per attempt means it ran twice."""
        mark = f'mktemp -d "{marks}/{self.key}.$HOLDFAST_JOB_ATTEMPT.XXXXXX" >/dev/null'
        body = {
            "plain": f"for i in 1 2 3 4 5; do echo out $i {self.key}; echo err $i {self.key} >&2; sleep 0.0$i; done",
            "retried": f'echo attempt "$HOLDFAST_JOB_ATTEMPT" {self.key}; test "$HOLDFAST_JOB_ATTEMPT" -ge 1',
            "stopped": f"echo waits {self.key}; sleep 300",
        }[self.kind]
        end = f"exit {self.code}" if self.kind == "plain" else "true"
        return (
            f"name: {self.key}\nretry: {1 if self.kind == 'retried' else 0}\ngrace: 1s\n"
            f"mounts: ['{marks}:{marks}:rw']\nresources: {{cpu: 0.1, memory: 64Mi}}\n"
            f"command: |\n  {mark}\n  {body}\n  {end}\n"
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home")
    running.start()
    yield running
    running.stop()


@pytest.mark.parametrize("seed", [7, pytest.param(8, marks=pytest.mark.release)])
def test_nothing_is_lost_and_nothing_runs_twice(server: Server, tmp_path: Path, seed: int) -> None:
    crash_again_and_again(server, tmp_path, jobs=40, kills=5, seed=seed)


@pytest.mark.release
@pytest.mark.timeout(LONG_RUN)
def test_nothing_is_lost_in_thirty_crashes(server: Server, tmp_path: Path) -> None:
    crash_again_and_again(server, tmp_path, jobs=210, kills=30, seed=7)


def crash_again_and_again(server: Server, tmp_path: Path, *, jobs: int, kills: int, seed: int) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    expected = [
        Expected(f"crash-{n}", "stopped" if n % 10 == 7 else "retried" if n % 7 == 3 else "plain", n % 5)
        for n in range(jobs)
    ]
    clients = threading.Thread(target=submit_all, args=(server, expected, marks))
    clients.start()
    chance = random.Random(seed)
    for _ in range(kills):
        time.sleep(chance.uniform(0.0, 0.5))  # the moment is the test's input, nothing waits for it
        server.kill()
        server.start()
    clients.join(TIMEOUT * 3)
    assert not clients.is_alive()
    for job in expected:
        check(server, job, marks)


def submit_all(server: Server, expected: list[Expected], marks: Path) -> None:
    for job in expected:
        job.id = persist(server, "POST", "/jobs", content=job.text(marks), headers={"Idempotency-Key": job.key})["id"]
        if job.kind == "stopped":
            persist(server, "POST", f"/jobs/{job.id}/stop")
            job.stop_acknowledged = True


def persist(server: Server, method: str, path: str, **request: object) -> dict[str, str]:
    """Ask until there is an answer; what was asked before a kill may or may not have happened."""
    began = time.monotonic()
    while time.monotonic() - began < TIMEOUT:
        try:
            with server.client() as client:
                reply = client.request(method, path, **request)  # type: ignore[arg-type]
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        if reply.status_code == 503 and reply.json()["error"]["code"] == "server_stopped":  # by what holds its port
            time.sleep(0.05)
            continue
        assert reply.status_code in (200, 201, 202), reply.text
        return dict(reply.json())
    raise AssertionError(f"no answer to {method} {path}")


def runs_of(job: Expected, marks: Path) -> list[str]:
    """The attempt of each run."""
    return [path.name.split(".")[1] for path in marks.glob(f"{job.key}.*")]


def check(server: Server, job: Expected, marks: Path) -> None:
    assert job.id, f"{job.key} was never acknowledged"
    end = server.wait(job.id)
    detail = server.get(f"/jobs/{job.id}").json()
    runs = runs_of(job, marks)
    assert len(runs) == len(set(runs)), f"{job.key} ran twice: {runs}"
    assert detail["retries"]["platform"] == 0, f"{job.key} was blamed on the platform: {detail}"
    if job.kind == "stopped":
        assert end["state"] == "Cancelled", end
        return
    log = server.get(f"/jobs/{job.id}/log", stream="stdout")
    if job.kind == "plain":
        assert (end["state"], end["exit_code"]) == ("Failed" if job.code else "Succeeded", job.code)
        assert log.text == "".join(f"out {i} {job.key}\n" for i in range(1, 6))
        errors = server.get(f"/jobs/{job.id}/log", stream="stderr")
        assert errors.text == "".join(f"err {i} {job.key}\n" for i in range(1, 6))
        assert len(runs) == 1
    else:
        assert (end["state"], end["attempt"]) == ("Succeeded", 1)
        assert log.text == f"attempt 1 {job.key}\n"
        first = server.get(f"/jobs/{job.id}/log", stream="stdout", attempt=0)
        assert first.text == f"attempt 0 {job.key}\n"
        assert len(runs) == 2
