"""Servers for measurements: each in its own process, on its own state folder below build/ and a free port.

Everything that is started here is also stopped here, by process id: first the jobs, then the server.
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

from .client import Connection, build_path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TIMEOUT = 120.0  # seconds; only reached if something is broken
FINAL_STATES = ("Succeeded", "Failed", "Cancelled")
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """The command line's options."""

    quick: bool = False
    keep: bool = False

    def pick_size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


class BenchServer:
    """A Holdfast server in its own process."""

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
        """Start the process. Return the seconds until its first response."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = self.port or find_free_port()
        env = build_clean_env() | {"HOLDFAST_HOME": str(self.home), "HOLDFAST_SERVER_PORT": str(self.port)}
        env |= {"HOLDFAST_SSH_PORT": "0", **self.settings}
        started = time.monotonic()
        with open(self.home / "server.out", "ab") as out:
            command = [sys.executable, "-m", "holdfast", "up"]
            self.process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        while not self._is_healthy():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended by itself:\n{self.read_output()[-3000:]}")
            if time.monotonic() - started > TIMEOUT:
                raise RuntimeError(f"the server did not answer:\n{self.read_output()[-3000:]}")
            time.sleep(0.01)
        seconds = time.monotonic() - started
        self.token = json.loads((self.home / "client.json").read_text())["token"]
        return seconds

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop the jobs, then the server: tasks run on without a server, but must not outlive the measurement."""
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
        kill_processes_below(self.home)

    def connect(self) -> Connection:
        return Connection(self.port, self.token)

    def submit_job(self, text: str) -> str:
        """Submit a job file. Return the job's id."""
        with self.connect() as connection:
            return str(connection.submit_job(text)["id"])

    def wait_for_end(self, job_id: str, timeout: float = TIMEOUT) -> dict[str, Any]:
        """Wait until the job is final. Return its record."""
        deadline = time.monotonic() + timeout
        with self.connect() as connection:
            while time.monotonic() < deadline:
                job = connection.get_json(f"/jobs/{job_id}/wait", timeout=30)
                if job["state"] in FINAL_STATES:
                    return dict(job)
        raise RuntimeError(f"{job_id} is still {job['state']}: {job['message']}")

    def run_job(self, text: str) -> dict[str, Any]:
        """Submit a job and wait for its end. Raise RuntimeError unless it succeeds."""
        job = self.wait_for_end(self.submit_job(text))
        if job["state"] != "Succeeded":
            raise RuntimeError(f"{job['name']} ended as {job['state']}: {job['message']}")
        return job

    def wait_for_state(self, job_id: str, state: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        with self.connect() as connection:
            while (job := connection.get_json(f"/jobs/{job_id}"))["state"] != state:
                if job["state"] in FINAL_STATES or time.monotonic() > deadline:
                    raise RuntimeError(f"{job['name']} is {job['state']}, not {state}: {job['message']}")
                time.sleep(0.02)

    def wait_until_idle(self) -> None:
        """Wait until no job is active. Polls slowly, because every request is load for the measured server."""
        deadline = time.monotonic() + TIMEOUT
        with self.connect() as connection:
            while sum(connection.get_json("/status")["jobs"].values()):
                if time.monotonic() > deadline:
                    raise RuntimeError("jobs are still active")
                time.sleep(0.1)

    def read_log(self, job_id: str, **query: Any) -> bytes:
        with self.connect() as connection:
            status, body = connection.request("GET", build_path(f"/jobs/{job_id}/log", query))
        if status not in (200, 206):
            raise RuntimeError(f"log of {job_id}: {status} {body[:300]!r}")
        return body

    def read_memory(self) -> float:
        """Return the resident memory of the server and its child processes, in MB."""
        server = psutil.Process(self.pid)
        return sum(process.memory_info().rss for process in [server, *server.children(recursive=True)]) / MB

    def read_cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    def read_output(self) -> str:
        return (self.home / "server.out").read_text(errors="replace")

    def _is_healthy(self) -> bool:
        try:
            with Connection(self.port, "") as connection:
                return connection.request("GET", "/api/v1/health")[0] == 200
        except OSError:
            return False

    def _stop_jobs(self) -> None:
        with self.connect() as connection:
            while ids := _list_active_job_ids(connection):
                body = json.dumps({"jobs": ids}).encode()
                status, response = connection.request(
                    "POST", "/api/v1/jobs/stop", body, "Content-Type: application/json\r\n"
                )
                if status != 200:
                    raise RuntimeError(f"cannot stop jobs: {status} {response[:300]!r}")
        self.wait_until_idle()


def _list_active_job_ids(connection: Connection) -> list[str]:
    """Return the ids of the jobs that are not final and not being stopped."""
    page = connection.get_json("/jobs", state="Pending,Preparing,Running,Held", limit=500)
    return [job["id"] for job in page["items"] if not job["stopping"]]


@contextmanager
def start_server(name: str, options: Options, **settings: str) -> Iterator[BenchServer]:
    """Start a server on a new state folder. At the end, stop it and delete its files."""
    with create_bench_folder(name, options) as folder:
        server = BenchServer(folder / "home", **settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def create_bench_folder(name: str, options: Options) -> Iterator[Path]:
    """Create an empty folder below build/, and delete it at the end unless it is to be kept."""
    folder = BUILD / f"bench-{name}"
    if folder.exists():
        kill_processes_below(folder)
        delete_folder(folder)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        if not options.keep:
            delete_folder(folder)


def delete_folder(folder: Path) -> None:
    """Delete a folder, also if a sandbox left folders without permissions in it. Links are not followed."""
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                with suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def kill_processes_below(home: Path) -> None:
    """Kill the processes that still use files of this state folder, if the server left any."""
    prefix = f"{home}/"
    for process in psutil.process_iter(["pid", "cmdline"]):
        arguments = process.info["cmdline"] or []
        if process.pid != os.getpid() and any(argument.startswith(prefix) for argument in arguments):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build_clean_env() -> dict[str, str]:
    """Return the environment without Holdfast's variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


def print_progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
