"""Real servers for measurements: each in its own process, on its own state folder below build/ and a free port.

Whatever is started here is stopped here, by process id: first the jobs, then the server.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from .client import Connection, with_query

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TIMEOUT = 120.0  # seconds; only ever reached when something is broken
FINAL = ("Succeeded", "Failed", "Cancelled")
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    quick: bool = False
    keep: bool = False

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full


class BenchServer:
    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.settings = settings
        self.port = 0
        self.token = ""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> float:
        """Returns the seconds from the start of the process until it answered."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        env = clean_env() | {"HOLDFAST_HOME": str(self.home), "HOLDFAST_SERVER_PORT": str(self.port)}
        env |= {"HOLDFAST_SSH_PORT": "0", **self.settings}
        began = time.monotonic()
        with open(self.home / "server.out", "ab") as out:
            command = [sys.executable, "-m", "holdfast", "up"]
            self.process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        while not self._answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended by itself:\n{self.output()[-3000:]}")
            if time.monotonic() - began > TIMEOUT:
                raise RuntimeError(f"the server did not answer:\n{self.output()[-3000:]}")
            time.sleep(0.01)
        took = time.monotonic() - began
        self.token = json.loads((self.home / "client.json").read_text())["token"]
        return took

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Jobs first: a task outlives its server, and ours must not outlive the measurement."""
        if self.process is None:
            return
        if self.process.poll() is None:
            with suppress(OSError, RuntimeError, ValueError):
                self._stop_jobs()
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        end_tasks_below(self.home)

    def connect(self) -> Connection:
        return Connection(self.port, self.token)

    def submit(self, text: str) -> str:
        with self.connect() as connection:
            return str(connection.submit(text)["id"])

    def wait(self, job_id: str, timeout: float = TIMEOUT) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        with self.connect() as connection:
            while time.monotonic() < deadline:
                job = connection.get(f"/jobs/{job_id}/wait", timeout=30)
                if job["state"] in FINAL:
                    return dict(job)
        raise RuntimeError(f"{job_id} is still {job['state']}: {job['message']}")

    def run(self, text: str) -> dict[str, Any]:
        """Submit, wait, and insist on success."""
        job = self.wait(self.submit(text))
        if job["state"] != "Succeeded":
            raise RuntimeError(f"{job['name']} ended as {job['state']}: {job['message']}")
        return job

    def wait_for_state(self, job_id: str, state: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        with self.connect() as connection:
            while (job := connection.get(f"/jobs/{job_id}"))["state"] != state:
                if job["state"] in FINAL or time.monotonic() > deadline:
                    raise RuntimeError(f"{job['name']} is {job['state']}, not {state}: {job['message']}")
                time.sleep(0.02)

    def wait_until_idle(self) -> None:
        """Looks seldom: each look is work for the server that is being measured."""
        deadline = time.monotonic() + TIMEOUT
        with self.connect() as connection:
            while sum(connection.get("/status")["jobs"].values()):
                if time.monotonic() > deadline:
                    raise RuntimeError("jobs are still active")
                time.sleep(0.1)

    def log(self, job_id: str, **query: Any) -> bytes:
        with self.connect() as connection:
            status, body = connection.request("GET", with_query(f"/jobs/{job_id}/log", query))
        if status not in (200, 206):
            raise RuntimeError(f"log of {job_id}: {status} {body[:300]!r}")
        return body

    def rss(self) -> float:
        """MB in memory now, of the server and of every process it keeps."""
        own = psutil.Process(self.pid)
        return sum(process.memory_info().rss for process in [own, *own.children(recursive=True)]) / MB

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    def output(self) -> str:
        return (self.home / "server.out").read_text(errors="replace")

    def _answers(self) -> bool:
        try:
            with Connection(self.port, "") as connection:
                return connection.request("GET", "/api/v1/health")[0] == 200
        except OSError:
            return False

    def _stop_jobs(self) -> None:
        with self.connect() as connection:
            while ids := _active(connection):
                body = json.dumps({"jobs": ids}).encode()
                status, answer = connection.request(
                    "POST", "/api/v1/jobs/stop", body, "Content-Type: application/json\r\n"
                )
                if status != 200:
                    raise RuntimeError(f"cannot stop jobs: {status} {answer[:300]!r}")
        self.wait_until_idle()


def _active(connection: Connection) -> list[str]:
    page = connection.get("/jobs", state="Pending,Preparing,Running,Held", limit=500)
    return [job["id"] for job in page["items"] if not job["stopping"]]


@contextmanager
def server(name: str, options: Options, **settings: str) -> Iterator[BenchServer]:
    """A started server on a fresh state folder; stopped, and its files removed, at the end."""
    with folder(name, options) as place:
        running = BenchServer(place / "home", **settings)
        try:
            running.start()
            yield running
        finally:
            running.stop()


@contextmanager
def folder(name: str, options: Options) -> Iterator[Path]:
    place = BUILD / f"bench-{name}"
    if place.exists():
        end_tasks_below(place)
        remove(place)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        if not options.keep:
            remove(place)


def remove(place: Path) -> None:
    """Also what a sandbox left without permissions. Links are not followed."""
    for parent, folders, _ in os.walk(place):
        for each in folders:
            path = Path(parent, each)
            if not path.is_symlink():
                with suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def end_tasks_below(home: Path) -> None:
    """Kill what still runs on files of this state folder, should the server have left something."""
    mark = f"{home}/"
    for process in psutil.process_iter(["pid", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.pid != os.getpid() and any(word.startswith(mark) for word in words):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
