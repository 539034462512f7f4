"""The crash test, measured: the downtime of the server after each SIGKILL, and lost, repeated or wrong jobs."""

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
from .harness import Options, create_bench_folder, kill_processes_below, print_progress
from .rows import Row, at_most, below, percentile


class CrashServer(Server):
    """The server of the crash test with a faster client: httpx prepares TLS longer than the server needs to respond."""

    def wait_ready(self) -> float:
        assert self.process is not None
        started = time.monotonic()
        while not self._is_healthy():
            if self.process.poll() is not None or time.monotonic() - started > TIMEOUT:
                raise RuntimeError(f"the server did not come back:\n{self.log()[-3000:]}")
            time.sleep(0.01)
        seconds = time.monotonic() - started
        self.token = json.loads((self.home / "client.json").read_text())["token"]
        return seconds

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=TIMEOUT, verify=False)

    def _is_healthy(self) -> bool:
        try:
            with Connection(self.port, "") as connection:
                return connection.request("GET", "/api/v1/health")[0] == 200
        except OSError:
            return False


def measure(options: Options) -> list[Row]:
    kills, jobs = options.pick_size(30, 5), options.pick_size(210, 40)
    print_progress(f"crash: {kills} kills, {jobs} jobs")
    with create_bench_folder("crash", options) as folder:
        marks = folder / "marks"
        marks.mkdir()
        server = CrashServer(folder / "home")
        server.start()
        try:
            expected = [_make_expected_job(number) for number in range(jobs)]
            downtimes = _kill_while_submitting(server, expected, marks, kills)
            print_progress("crash: looking at every job")
            return _make_rows(server, expected, marks, downtimes)
        finally:
            server.stop()
            kill_processes_below(folder)


def _make_expected_job(number: int) -> test_crash.Expected:
    kind = "stopped" if number % 10 == 7 else "retried" if number % 7 == 3 else "plain"
    return test_crash.Expected(f"crash-{number}", kind, number % 5)


def _kill_while_submitting(
    server: CrashServer, expected: list[test_crash.Expected], marks: Path, kills: int
) -> list[float]:
    clients = threading.Thread(target=test_crash.submit_all, args=(server, expected, marks), daemon=True)
    clients.start()
    rng = random.Random(7)
    downtimes = []
    for _ in range(kills):
        time.sleep(rng.uniform(0.0, 0.5))
        server.kill()
        downtimes.append(server.start())
    clients.join(TIMEOUT * 3)
    if clients.is_alive():
        raise RuntimeError("the clients did not finish")
    return downtimes


def _make_rows(
    server: CrashServer, expected: list[test_crash.Expected], marks: Path, downtimes: list[float]
) -> list[Row]:
    lost = run_twice = wrong = 0
    first_error = ""
    for job in expected:
        runs = test_crash.runs_of(job, marks)
        run_twice += len(runs) != len(set(runs))
        if not job.id or server.get(f"/jobs/{job.id}").status_code != 200:
            lost += 1
            continue
        try:
            test_crash.check(server, job, marks)
        except AssertionError as error:
            wrong += 1
            first_error = first_error or " ".join(str(error).split())[:200]
    note = f"{len(downtimes)} kills, {len(expected)} jobs, median {percentile(downtimes, 50):.2f} s"
    return [
        Row("crash: worst time until the server answers", max(downtimes), "s", below(2), note),
        Row("crash: jobs lost", lost, "jobs", at_most(0)),
        Row("crash: jobs run twice", run_twice, "jobs", at_most(0)),
        Row("crash: jobs with a wrong end, code or log", wrong, "jobs", at_most(0), first_error),
    ]
