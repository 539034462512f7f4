"""Kills a server and its engine's daemons at random moments while jobs with known output run, then checks every job.

`python -m tests.e2e.kill_run --jobs 200 --kills 300` runs the long form and prints its figures.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.container_daemons import IMAGE, ContainerDaemon, Dockerd, PodmanService, run_daemon
from tests.slurm_cluster import NODES, SlurmCluster, run_cluster

from .server import TIMEOUT, Server

LINES = 40  # of each stream of a job
BLOCK = 3000  # numbers that a job prints at its end
PAUSE = 1.0  # seconds at most between two kills, and before a killed process is started again
VICTIMS = ("server", "server", "daemon", "both")  # chosen at random
FINAL_STATES = ("Succeeded", "Failed", "Cancelled")


@dataclass
class KnownJob:
    """A job whose runs, exit code and output are known in advance."""

    key: str
    kind: str  # plain, retried or stopped
    code: int = 0
    id: str = ""

    def render(self, marks: Path, image: str) -> str:
        """Return its file. Each run leaves a mark outside the task: two of one attempt mean that it ran twice."""
        body = {
            "plain": f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo out $i {self.key}; "
            f"echo err $i {self.key} >&2; sleep 0.05; done; seq {BLOCK}; exit {self.code}",
            "retried": f'echo attempt "$HOLDFAST_JOB_ATTEMPT" {self.key}; sleep 1; test "$HOLDFAST_JOB_ATTEMPT" -ge 1',
            "stopped": f"echo waits {self.key}; sleep 300",
        }[self.kind]
        return (
            f"name: {self.key}\nretry: {1 if self.kind == 'retried' else 0}\ngrace: 1s\nimage: {image}\n"
            f"mounts: ['{marks}:{marks}:rw']\nresources: {{cpu: 0.1, memory: 64Mi}}\n"
            f'command: |\n  mktemp -d "{marks}/{self.key}@$HOLDFAST_ATTEMPT@XXXXXX" >/dev/null\n  {body}\n'
        )

    def expect_output(self, stream: str, attempt: int) -> str:
        if self.kind == "retried":
            return f"attempt {attempt} {self.key}\n" if stream == "stdout" else ""
        word = "out" if stream == "stdout" else "err"
        lines = "".join(f"{word} {number} {self.key}\n" for number in range(1, LINES + 1))
        return lines + ("".join(f"{number}\n" for number in range(1, BLOCK + 1)) if stream == "stdout" else "")

    def list_runs(self, marks: Path) -> list[str]:
        """Return the attempt id of each run."""
        return [path.name.split("@")[1] for path in marks.glob(f"{self.key}@*")]


def make_jobs(count: int) -> list[KnownJob]:
    kinds = ["stopped" if n % 10 == 7 else "retried" if n % 7 == 3 else "plain" for n in range(count)]
    return [KnownJob(f"kill-{n}", kind, n % 5 if kind == "plain" else 0) for n, kind in enumerate(kinds)]


@dataclass
class KillReport:
    kills: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)  # by kind
    problems: list[str] = field(default_factory=list)
    platform_retries: int = 0
    log_bytes: int = 0  # compared, all equal unless there are problems
    left: int = 0  # containers, or jobs of the cluster
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "kills": dict(self.kills), "jobs": dict(self.jobs), "seconds": round(self.seconds)}


class Daemons(Protocol):
    """What runs the tasks for the engine."""

    image: str
    loses_tasks: bool  # killed, it may end tasks, which the server then runs again

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def count_left(self) -> int:
        """Count what has not been removed; below 0 if that is not known."""
        ...


@dataclass
class ContainerDaemons:
    daemon: ContainerDaemon
    image: str = IMAGE
    loses_tasks: bool = False

    def kill(self) -> None:
        self.daemon.kill()

    def start(self) -> None:
        self.daemon.start()

    def count_left(self) -> int:
        with self.daemon.client() as client:
            reply = client.get("/containers/json", params={"all": "1"})
        return len(reply.json()) if reply.status_code == 200 else -1


@dataclass
class SlurmDaemons:
    """The controller, or one of the nodes, by turns."""

    cluster: SlurmCluster
    image: str = "host"
    # The controller forgets a job if it is killed right after it has accepted it. The nodes then kill the task.
    loses_tasks: bool = True
    _turn: int = 0

    def kill(self) -> None:
        self._turn += 1
        if self._turn % 2:
            self.cluster.kill_controller()
        else:
            self.cluster.kill_node(self._node)

    def start(self) -> None:
        if self._turn % 2:
            self.cluster.start_controller()
        else:
            self.cluster.start_node(self._node)

    @property
    def _node(self) -> str:
        return NODES[self._turn // 2 % len(NODES)]

    def count_left(self) -> int:
        return len(self.cluster.query("squeue", "-h", "-o", "%i").split()) if self.cluster.responds() else -1


class KillRun:
    def __init__(self, server: Server, daemon: Daemons, marks: Path, jobs: int, kills: int, seed: int) -> None:
        self.server = server
        self.daemon = daemon
        self.marks = marks
        self.jobs = make_jobs(jobs)
        self.kills = kills
        self.report = KillReport()
        self._chance = random.Random(seed)
        self._failure: BaseException | None = None

    def run(self) -> KillReport:
        started = time.monotonic()
        client = threading.Thread(target=self._submit_jobs)
        client.start()
        try:
            for number in range(self.kills):
                if number % 25 == 0:
                    print(f"{number} kills after {time.monotonic() - started:.0f} s", flush=True)
                self._kill_one()
        finally:
            self._enough = True
            client.join(TIMEOUT * 5)
        assert not client.is_alive()
        if self._failure is not None:
            raise self._failure
        for job in self.jobs:
            self._check_job(job)
        self.report.left = self._count_left()
        self.report.seconds = time.monotonic() - started
        return self.report

    # --- kills --------------------------------------------------------------------------------------------------------

    _enough = False  # all kills are done: submit the rest

    def _kill_one(self) -> None:
        """Kill one or both. The moment and the time without it are the test's input; nothing waits for them."""
        victim = self._chance.choice(VICTIMS)
        time.sleep(self._chance.uniform(0, PAUSE))
        if victim != "daemon":
            self.server.kill()
        if victim != "server":
            self.daemon.kill()
        time.sleep(self._chance.uniform(0, PAUSE))
        starts = [self.server.start] if victim != "daemon" else []
        starts += [self.daemon.start] if victim != "server" else []  # type: ignore[list-item]
        self._chance.shuffle(starts)
        for start in starts:
            start()
        self.report.kills[victim] += 1

    def _submit_jobs(self) -> None:
        """Submit them spread over the kills."""
        try:
            for number, job in enumerate(self.jobs):
                while self.report.kills.total() < number * self.kills // len(self.jobs) and not self._enough:
                    time.sleep(0.02)
                headers = {"Idempotency-Key": job.key}
                job.id = self._request(
                    "POST", "/jobs", content=job.render(self.marks, self.daemon.image), headers=headers
                )["id"]
                if job.kind == "stopped":
                    self._request("POST", f"/jobs/{job.id}/stop")
        except BaseException as error:
            self._failure = error

    def _request(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        """Repeat it until there is an answer: a request before a kill may or may not have taken effect."""
        until = time.monotonic() + TIMEOUT * 3
        while time.monotonic() < until:
            with suppress(httpx.TransportError), self.server.client() as client:
                reply = client.request(method, path, **request)
                if reply.status_code != 503:
                    assert reply.status_code in (200, 201, 202), reply.text
                    return dict(reply.json())
            time.sleep(0.05)
        raise AssertionError(f"no answer to {method} {path}")

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_job(self, job: KnownJob) -> None:
        self.report.jobs[job.kind] += 1
        end = self._wait_for_end(job)
        detail = self.server.get(f"/jobs/{job.id}").json()
        self.report.platform_retries += detail["retries"]["platform"]
        runs = job.list_runs(self.marks)
        if len(runs) != len(set(runs)):
            self._add_problem(job, f"ran twice: {runs}", detail)
        expected = {"plain": ("Failed" if job.code else "Succeeded", job.code), "retried": ("Succeeded", 0)}
        if job.kind == "stopped":
            if end["state"] != "Cancelled":
                self._add_problem(job, "was not cancelled", detail)
            return
        if (end["state"], end["exit_code"]) != expected[job.kind]:
            self._add_problem(job, f"ended as {end['state']} with {end['exit_code']}", detail)
        retried = self.daemon.loses_tasks and detail["retries"]["platform"]
        if len(set(runs)) != (2 if job.kind == "retried" else 1) and not retried:
            self._add_problem(job, f"ran in the attempts {runs}", detail)
        if not retried:
            self._check_logs(job, end["attempt"], detail)

    def _check_logs(self, job: KnownJob, last: int, detail: dict[str, Any]) -> None:
        for attempt in range(last + 1):
            for stream in ("stdout", "stderr"):
                found = self.server.get(f"/jobs/{job.id}/log", stream=stream, attempt=attempt)
                if found.text != job.expect_output(stream, attempt):
                    self._add_problem(job, f"{stream} of attempt {attempt}: {found.text[-200:]!r}", detail)
                self.report.log_bytes += len(found.content)

    def _wait_for_end(self, job: KnownJob) -> dict[str, Any]:
        until = time.monotonic() + TIMEOUT * 2
        while True:
            end = self._request("GET", f"/jobs/{job.id}/wait", params={"timeout": 30})
            if end["state"] in FINAL_STATES or time.monotonic() > until:
                return end

    def _add_problem(self, job: KnownJob, text: str, detail: dict[str, Any]) -> None:
        events = self.server.get(f"/jobs/{job.id}/events").text
        self.report.problems.append(f"{job.key} {job.id} {text}; {json.dumps(detail)[:3000]} {events[:6000]}")

    def _count_left(self) -> int:
        """Count what is left once the server had time to remove it."""
        until = time.monotonic() + TIMEOUT
        while True:
            found = self.daemon.count_left()
            if not found or time.monotonic() > until:
                return found
            time.sleep(0.2)


@contextmanager
def start_container_server(
    home: Path, kind: type[ContainerDaemon] = Dockerd
) -> Iterator[tuple[Server, ContainerDaemons]]:
    with run_daemon(kind) as daemon:
        settings = {"HOLDFAST_ENGINE_KIND": "docker", "HOLDFAST_ENGINE_SOCKET": daemon.socket}
        with _start_server(home, settings) as server:
            yield server, ContainerDaemons(daemon)


@contextmanager
def start_slurm_server(home: Path) -> Iterator[tuple[Server, SlurmDaemons]]:
    with run_cluster() as cluster:
        settings = {"HOLDFAST_ENGINE_KIND": "slurm", "HOLDFAST_SLURM_CONF": str(cluster.conf)}
        with _start_server(home, {**settings, "HOLDFAST_SLURM_FOLDER": f"{home}-shared"}) as server:
            yield server, SlurmDaemons(cluster)


@contextmanager
def _start_server(home: Path, settings: dict[str, str]) -> Iterator[Server]:
    server = Server(home, **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


ENGINES: dict[str, Callable[[Path], AbstractContextManager[tuple[Server, Daemons]]]] = {
    "docker": start_container_server,
    "podman": partial(start_container_server, kind=PodmanService),
    "slurm": start_slurm_server,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--engine", choices=ENGINES, default="docker")
    parser.add_argument("--keep", action="store_true", help="keep the state folder")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hf-kills-"))
    with ExitStack() as stack:
        if not given.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "marks").mkdir()
        server, daemon = stack.enter_context(ENGINES[given.engine](folder / "home"))
        run = KillRun(server, daemon, folder / "marks", given.jobs, given.kills, given.seed)
        print(json.dumps(run.run().to_json(), indent=2))


if __name__ == "__main__":
    main()
