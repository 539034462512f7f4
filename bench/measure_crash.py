"""The crash test, counted: how long the server is away after each SIGKILL, and what became of the jobs."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import httpx
from tests.e2e import test_crash
from tests.e2e.server import TIMEOUT, Server

from .client import Connection
from .harness import Options, end_tasks_below, folder, say
from .rows import Row, at_most, below, percentile


class CrashServer(Server):
    """The test's server, asked by a lean client: preparing for TLS costs httpx more than our server needs to answer."""

    def wait_ready(self) -> float:
        assert self.process is not None
        began = time.monotonic()
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() - began > TIMEOUT:
                raise RuntimeError(f"the server did not come back:\n{self.log()[-3000:]}")
            time.sleep(0.01)
        took = time.monotonic() - began
        self.token = json.loads((self.home / "client.json").read_text())["token"]
        return took

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=TIMEOUT, verify=False)

    def _answers(self) -> bool:
        try:
            with Connection(self.port, "") as connection:
                return connection.request("GET", "/api/v1/health")[0] == 200
        except OSError:
            return False


def measure(options: Options) -> list[Row]:
    kills, jobs = options.pick(30, 5), options.pick(210, 40)
    say(f"crash: {kills} kills, {jobs} jobs")
    with folder("crash", options) as place:
        marks = place / "marks"
        marks.mkdir()
        running = CrashServer(place / "home")
        running.start()
        try:
            expected = [_job(number) for number in range(jobs)]
            away = _kill_while_submitting(running, expected, marks, kills)
            say("crash: looking at every job")
            return _rows(running, expected, marks, away)
        finally:
            running.stop()
            end_tasks_below(place)


def _job(number: int) -> test_crash.Expected:
    kind = "stopped" if number % 10 == 7 else "retried" if number % 7 == 3 else "plain"
    return test_crash.Expected(f"crash-{number}", kind, number % 5)


def _kill_while_submitting(
    running: CrashServer, expected: list[test_crash.Expected], marks: Path, kills: int
) -> list[float]:
    clients = threading.Thread(target=test_crash.submit_all, args=(running, expected, marks), daemon=True)
    clients.start()
    chance = random.Random(7)
    away = []
    for _ in range(kills):
        time.sleep(chance.uniform(0.0, 0.5))
        running.kill()
        away.append(running.start())
    clients.join(TIMEOUT * 3)
    if clients.is_alive():
        raise RuntimeError("the clients did not finish")
    return away


def _rows(running: CrashServer, expected: list[test_crash.Expected], marks: Path, away: list[float]) -> list[Row]:
    lost = twice = wrong = 0
    first = ""
    for job in expected:
        runs = test_crash.runs_of(job, marks)
        twice += len(runs) != len(set(runs))
        if not job.id or running.get(f"/jobs/{job.id}").status_code != 200:
            lost += 1
            continue
        try:
            test_crash.check(running, job, marks)
        except AssertionError as error:
            wrong += 1
            first = first or " ".join(str(error).split())[:200]
    note = f"{len(away)} kills, {len(expected)} jobs, median {percentile(away, 50):.2f} s"
    return [
        Row("crash: worst time until the server answers", max(away), "s", below(2), note),
        Row("crash: jobs lost", lost, "jobs", at_most(0)),
        Row("crash: jobs run twice", twice, "jobs", at_most(0)),
        Row("crash: jobs with a wrong end, code or log", wrong, "jobs", at_most(0), first),
    ]
