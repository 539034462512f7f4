"""A server on which jobs are truly run, to be requested its verdicts afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tests.e2e.server import TIMEOUT, Server

from .cases import Case

SETTINGS = {
    "HOLDFAST_NODE_CPUS": "8",  # most jobs wait more than they work
    "HOLDFAST_NODE_MAX_PROCESSES": "100",
    "HOLDFAST_DISK_TASK_FILES": "20000",
    "HOLDFAST_PRIMEHUB_SCRATCH_BYTES": "20000000",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # what jobs on the image `host` have
FINAL = ("Succeeded", "Failed", "Cancelled")
SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM}
NO_GROUPS = 'umount -R -l /sys/fs/cgroup && exec "$0" "$@"'


class Ward:
    def __init__(self, folder: Path) -> None:
        self.server = Server(folder / "home", **SETTINGS)
        self._dataset = folder / "vanishing"
        self._jobs: dict[str, str] = {}  # case -> job
        self._said: dict[str, dict[str, Any]] = {}
        self._trouble: dict[str, str] = {}  # case -> why it did not come to its end; told by its own tests alone

    def start(self) -> None:
        self.server.start()

    def start_without_control_groups(self) -> None:
        """In a mount namespace of its own, where no control groups are to be found."""
        self.server.prefix = ["unshare", "-m", "sh", "-c", NO_GROUPS]
        self.server.start()

    @cached_property
    def engine(self) -> dict[str, Any]:
        return dict(self.server.get("/capacity").json()["engine"])

    # --- running --------------------------------------------------------------------------------------------------

    def run(self, cases: Iterable[Case]) -> None:
        """Submit all that can run here, do to them what is to be done from outside, and wait for their ends."""
        able = [case for case in cases if not self.lacks(case)]
        if any(case.expected and case.expected.action == "remove-dataset" for case in able):
            self._make_dataset()
        able.sort(key=lambda case: case.expected is None or not (case.expected.first or case.expected.action))
        for case in able:
            self._jobs[case.name] = self.server.submit(case.path.read_text())["id"]
        for case in able:
            if case.expected is not None and case.expected.action is not None:
                self._try(case.name, partial(self._act, case.expected.action))
        for name in self._jobs:
            self._try(name, self._wait)

    def _try(self, name: str, work: Callable[[str], None]) -> None:
        try:
            work(self._jobs[name])
        except AssertionError as error:
            self._trouble.setdefault(name, str(error))

    def lose(self, case: Case) -> None:
        """Run it, and have the machine go down under it, as far as it and the server are concerned; then come up again
        and wait for its next try."""
        job = self._jobs[case.name] = self.server.submit(case.path.read_text())["id"]
        self._wait_until_ready(job)
        self.server.kill()
        for claim in self.server.home.glob(f"tasks/{job}.*/claim"):
            os.kill(int(claim.read_text().split()[1]), signal.SIGKILL)
        self.server.start()
        self._wait_until(job, lambda seen: seen["attempt"] > 0)

    def hold(self, case: Case) -> None:
        """Run it until it is kept after its failure."""
        job = self._jobs[case.name] = self.server.submit(case.path.read_text())["id"]
        self._wait_until(job, lambda seen: seen["state"] == "Held")

    def _wait_until(self, job: str, good: Callable[[dict[str, Any]], bool]) -> None:
        began = time.monotonic()
        while not good(seen := self.server.get(f"/jobs/{job}").json()):
            assert time.monotonic() - began < TIMEOUT, seen
            time.sleep(0.05)

    def _wait(self, job: str) -> None:
        with self.server.client() as client:
            began = time.monotonic()
            while time.monotonic() - began < 4 * TIMEOUT:
                if client.get(f"/jobs/{job}/wait", params={"timeout": 30}).json()["state"] in FINAL:
                    return
        raise AssertionError(f"{job} does not end")

    def _make_dataset(self) -> None:
        self._dataset.mkdir()
        (self._dataset / "here").touch()
        with self.server.client() as client:
            reply = client.post("/datasets", json={"name": "vanishing", "path": str(self._dataset)})
        assert reply.is_success, reply.text

    def _act(self, action: str, job: str) -> None:
        self._wait_until_ready(job)
        if action == "remove-dataset":
            shutil.rmtree(self._dataset)
            return
        for pid in processes_of(job):
            with suppress(OSError):  # it may just have ended
                if b"time.sleep(300)" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, SIGNALS[action])

    def _wait_until_ready(self, job: str) -> None:
        began = time.monotonic()
        while time.monotonic() - began < TIMEOUT:
            reply = self.server.get(f"/jobs/{job}/log")
            if reply.is_success and "ready" in reply.text and any(map(_is_working, processes_of(job))):
                return
            time.sleep(0.05)
        raise AssertionError(f"{job} never became ready: {reply.text}")

    # --- asking ---------------------------------------------------------------------------------------------------

    def lacks(self, case: Case) -> str:
        """What the case needs and is not here; empty when it can run."""
        needs = case.expected.needs.split() if case.expected else []
        return ", ".join(need for need in needs if not self._has(need))

    def _has(self, need: str) -> bool:
        match need:
            case "root":
                return bool(self.engine["isolation"] == "full")
            case "sandbox":
                return bool(self.engine["isolation"] != "none")
            case "processes":
                return str(self.engine["limits"]).startswith("cgroup")
            case "managed":
                return any(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED"))
            case "groups":
                python = shutil.which("python3", path=PATH) or "python3"
                return subprocess.run([python, "-c", "ExceptionGroup"], capture_output=True).returncode == 0
            case program:
                return shutil.which(program, path=PATH) is not None

    def why(self, case: Case) -> dict[str, Any]:
        """What is said of it; asked for once."""
        assert case.name not in self._trouble, self._trouble[case.name]
        if case.name not in self._said:
            reply = self.server.get(f"/jobs/{self._jobs[case.name]}/why")
            assert reply.is_success, reply.text
            self._said[case.name] = dict(reply.json())
        return self._said[case.name]

    def stop(self, case: Case) -> None:
        with self.server.client() as client:
            client.post(f"/jobs/{self._jobs[case.name]}/stop").raise_for_status()
        self._wait(self._jobs[case.name])

    def log_at(self, case: Case, failure: dict[str, Any], line: dict[str, Any]) -> str:
        """What stands in the log where a line of evidence is said to be."""
        part = {"task": line["task"], "attempt": failure["attempt"], "start": line["offset"], "count": 4096}
        return self.server.get(f"/jobs/{self._jobs[case.name]}/log", **part).text

    def account(self, case: Case) -> str:
        """What there was to go by, for who reads that a verdict was wrong."""
        job = self._jobs[case.name]
        lines = []
        for task in self.server.get(f"/jobs/{job}/tasks").json()["items"]:
            log = self.server.get(f"/jobs/{job}/log", task=task["task"]).text
            lines.append(f"--- {task['task']}, {task['exit']}\n{log[-2000:]}")
        return "\n".join(lines)


def processes_of(job: str) -> list[int]:
    """All that this machine runs for a job, as far as we may see it."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if f"HOLDFAST_JOB={job}\0".encode() in environment:
                found.append(int(folder.name))
    return found


def _is_working(pid: int) -> bool:
    """It has come to where the action is to find it."""
    try:
        return any(sign in Path(f"/proc/{pid}/cmdline").read_bytes() for sign in (b"time.sleep(300)", b"sleep\x000.05"))
    except OSError:
        return False
