"""After its end, however it comes, nothing of a simulation is left: no process, control group, mount or file."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.engines.embedded.cgroups import find_cgroups

from ..e2e.server import Server
from ..preloaded import start_holdfast

pytestmark = pytest.mark.release

TIMEOUT = 120.0  # seconds; only ever reached when something is broken


class Traces:
    """Simulations on one state folder, and what is to be seen of them on the machine."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self._file = folder / "job.json"
        self._mark = f"sleep {secrets.randbelow(10**9) + 10**9}"
        self._names: set[str] = set()
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def job(self) -> dict[str, Any]:
        waits = f"trap 'echo asked; exit 3' TERM; echo up; {self._mark} & wait"
        return {
            "name": "stays",
            "roles": {"one": {"command": waits, "ports": {"web": 1}}, "two": {"command": f"echo up; {self._mark}"}},
        }

    def run(self, *more: str) -> tuple[int, bytes]:
        """To its end."""
        process = self._begin(*more)
        said, _ = process.communicate(timeout=TIMEOUT)
        return process.returncode, said

    def _begin(self, *more: str) -> subprocess.Popen[bytes]:
        self._file.write_text(json.dumps(self.job))
        words = ["simulate", str(self._file), *more]
        process = start_holdfast(words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Both of its tasks are up."""
        process = self._begin(*more)
        heard: list[bytes] = []
        while sum(line.endswith(b"| up\n") for line in heard) < 2:
            line = process.stdout.readline() if process.stdout else b""
            assert line, heard
            heard.append(line)
        self._names |= {path.name for path in (self.state / "simulations").iterdir()}
        return process

    @property
    def env(self) -> dict[str, str]:
        others = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
        return {**others, "HOLDFAST_HOME": str(self.state)}

    def alive(self) -> set[int]:
        return {each.pid for each in psutil.process_iter(["cmdline"]) if self._is_ours(each)}

    def _is_ours(self, process: psutil.Process) -> bool:
        line = " ".join(process.info["cmdline"] or ())
        return self._mark in line or f"{self.state}/simulations" in line

    def groups(self) -> list[str]:
        found, _ = find_cgroups()
        folders = [Path(parent).parent for _, parent in found.parents] if found else []
        return [str(path) for folder in folders for name in self._names for path in folder.glob(f"*{name}*")]

    def assert_gone(self) -> None:
        assert self.alive() == set()
        assert self.groups() == []
        assert [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.state) in line] == []


@pytest.fixture
def traces(tmp_path: Path) -> Iterator[Traces]:
    made = Traces(tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
    for pid in made.alive():  # of a test that failed
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "TERM"])
def test_a_signal_stops_everything(traces: Traces, number: signal.Signals) -> None:
    process = traces.start("--no-server")
    assert traces.alive()
    process.send_signal(number)
    said, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert b"one-0 | asked" in said
    assert b"Interrupted; nothing had failed." in said
    traces.assert_gone()
    assert not traces.state.exists()


def test_the_next_one_cleans_up_after_one_that_was_killed(traces: Traces) -> None:
    killed = traces.start("--no-server")
    killed.kill()
    killed.wait()
    assert traces.alive()  # its tasks live on
    assert traces.run("--no-server", "--timeout", "1s")[0] == 0
    traces.assert_gone()
    assert list(traces.state.iterdir()) == []


def test_two_at_a_time_leave_each_other_alone(traces: Traces) -> None:
    first = traces.start("--no-server")
    assert traces.run("--no-server", "--timeout", "1s")[0] == 0
    assert first.poll() is None
    assert traces.alive()
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=TIMEOUT)
    traces.assert_gone()


def test_a_server_on_the_same_state_folder_is_asked_and_not_disturbed(traces: Traces) -> None:
    server = Server(traces.state)
    server.start()
    try:
        job = server.submit(json.dumps({"name": "beside", "command": "sleep 12345"}))["id"]
        code, said = traces.run("--timeout", "1s")
        assert code == 0, said
        assert f"{server.url} checked the group".encode() in said
        assert b"without failing" in said
        traces.assert_gone()
        assert not (traces.state / "simulations").exists()
        assert server.get(f"/jobs/{job}").json()["state"] == "Running"
        with server.client() as client:
            client.post(f"/jobs/{job}/stop").raise_for_status()
        assert server.wait(job)["state"] == "Cancelled"
    finally:
        server.kill()


def test_it_ends_when_nobody_reads_it_any_more(traces: Traces, tmp_path: Path) -> None:
    file = tmp_path / "talks.json"
    file.write_text(json.dumps({"name": "talks", "command": "while :; do echo word; sleep 0.1; done"}))
    line = f"{sys.executable} -m holdfast simulate {file} --no-server | head -n 1"
    done = subprocess.run(line, shell=True, env=traces.env, capture_output=True, timeout=TIMEOUT, check=True)
    assert done.stdout == b"main-0 | word\n"
    traces.assert_gone()
    assert not traces.state.exists()
