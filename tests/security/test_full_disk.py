"""A job, or another program, fills the disk of the state folder: nobody else is stopped, nothing is lost, the server
starts all the same, and goes on by itself when there is room again.

`HOLDFAST_ROUNDS=50` makes more rounds of fill, kill, start and free than there are in every run.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.disk_space import DiskThresholds
from holdfast.engines.embedded import EmbeddedEngine
from tests.contracts.engine_contract import sweep
from tests.e2e.server import TIMEOUT, Server

from .small_disk import Ballast, small_disk

ROUNDS = int(os.environ.get("HOLDFAST_ROUNDS", "6"))

# A filler that is not on the small disk, because its sandbox was left out, must not fill the machine's.
_GUARD = """
import os, sys
def check(path):
    found = os.statvfs(path)
    if found.f_blocks * found.f_frsize > 1 << 30:
        sys.exit("not on the small disk")
"""
_GRAB = f"""{_GUARD}
path, size, end = sys.argv[1], 1 << 28, 0
file = open(path, "wb")
check(path)
print("filling", flush=True)
while True:
    try:
        os.posix_fallocate(file.fileno(), end, size)
        end += size
    except OSError:
        size = max(4096, size // 2)
"""
_UNLINKED = _GRAB.replace('print("filling"', 'os.unlink(path); print("filling"')
_DEEP = _GRAB.replace(
    'file = open(path, "wb")',
    """os.mkdir(path); os.chdir(path)
for _ in range(1000):
    os.mkdir("d"); os.chdir("d")
path = "large"; file = open(path, "wb")""",
)
_FILES = f"""{_GUARD}
os.mkdir(os.path.expanduser("~/many"))
check(os.path.expanduser("~/many"))
print("filling", flush=True)
number = 0
while True:
    number += 1
    try:
        open(os.path.expanduser("~/many/%s" % number), "w").close()
    except OSError:
        pass
"""
# Each does all it can to leave no room, and never gives up.
FILLERS = {
    "one large file in its home": f"python3 -c '{_GRAB}' ~/large",
    "its log": "echo filling; while :; do yes || :; done",
    "one large file in /tmp": f"python3 -c '{_GRAB}' /tmp/large",
    "many files": f"python3 -c '{_FILES}'",
    "an unlinked file": f"python3 -c '{_UNLINKED}' ~/unlinked",
    "an unlinked file in /tmp": f"python3 -c '{_UNLINKED}' /tmp/unlinked",
    "a deep file": f"python3 -c '{_DEEP}' ~/deep",
    "artifacts": f"mkdir ~/artifacts; python3 -c '{_GRAB}' ~/artifacts/large",
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path) as found:
        yield found


class SmallServer(Server):
    """On the small disk; however full that is, its tasks are isolated as at the first start, or wait."""

    isolation = ""
    starts = 0
    slowest = 0.0  # seconds

    def start(self) -> float:
        took = super().start()
        self.starts, self.slowest = self.starts + 1, max(self.slowest, took)
        isolation = self.get("/status").json()["engine"]["isolation"]
        self.isolation = self.isolation or isolation
        assert isolation == self.isolation or "sandbox" in conditions_of(self), isolation
        return took


@pytest.fixture
def server(disk: Path) -> Iterator[SmallServer]:
    reserve = str(DiskThresholds().reserve_bytes)  # as it is by default
    running = SmallServer(
        disk / "home", HOLDFAST_NODE_CPUS="8", HOLDFAST_JOBS_GRACE="1", HOLDFAST_DISK_RESERVE_BYTES=reserve
    )
    try:
        running.start()
        yield running
    finally:
        running.stop()
        asyncio.run(stop_all_tasks(disk / "home"))


async def stop_all_tasks(home: Path) -> None:
    engine = EmbeddedEngine(home)
    await engine.open(lambda _: None)
    await sweep(engine, [])
    await engine.close()


def job_file(command: str) -> str:
    lines = "\n".join(f"  {line}" for line in command.splitlines())
    return f"name: job\nresources: {{cpu: 1, memory: 256Mi}}\ncommand: |\n{lines}\n"


def wait_until(is_so: Callable[[], Any], what: str) -> Any:
    """For what the server reports and gives no notification of."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"in vain: {what}")


def conditions_of(server: Server) -> set[str]:
    reply = server.get("/health")
    assert reply.status_code == 200
    return {each["kind"] for each in reply.json()["conditions"]}


def is_full(server: Server) -> bool:
    return "disk-full" in conditions_of(server)


SUCCEEDED, NO_ROOM = "succeeded", "could not write, and is told why"


def result_of(server: SmallServer, id: str) -> str:
    """A program that runs while there is no room cannot write; then that is its verdict."""
    job = server.wait(id)
    if job["state"] == "Succeeded" and server.get(f"/jobs/{id}/log").text.strip() == "done":
        return SUCCEEDED
    return NO_ROOM if "disk was full" in job["message"] else f"{job['state']}: {job['message']}"


def has_log(server: SmallServer, id: str) -> bool:
    reply = server.get(f"/jobs/{id}/log", tail=10)
    return reply.status_code == 200 and bool(reply.text.strip())


class Others:
    """They go on submitting while somebody fills the disk."""

    def __init__(self, server: SmallServer) -> None:
        self.server = server
        self.jobs: list[str] = []
        self.problems: list[str] = []
        self.slowest = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Others:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(0.05):
            began = time.monotonic()
            with self.server.client() as client, suppress(httpx.HTTPError):
                reply = client.post("/jobs", content=job_file("echo done"))
                if reply.status_code == 201:
                    self.jobs.append(reply.json()["id"])
                elif "server_stopped" not in reply.text:
                    self.problems.append(reply.text)
            self.slowest = max(self.slowest, time.monotonic() - began)


@pytest.mark.longer
@pytest.mark.timeout(1200)
@pytest.mark.release
def test_rounds_of_fill_kill_start_and_free(server: SmallServer, disk: Path) -> None:
    ballast = Ballast(disk)
    assert server.isolation != "none"
    acknowledged: list[str] = []
    fillers = cycle(FILLERS.items())
    for number in range(ROUNDS):
        if number % 2:
            acknowledged += round_of_another_program(server, ballast, files=number % 4 == 3, clean=number % 8 == 5)
        else:
            what, command = next(fillers)
            acknowledged += round_of_a_job(server, what, command)
    results = [result_of(server, id) for id in acknowledged]
    assert set(results) <= {SUCCEEDED, NO_ROOM}, Counter(results)
    assert results.count(SUCCEEDED) > len(results) // 2
    starts = f"{server.starts} starts (slowest {server.slowest:.1f} s)"
    print(f"{ROUNDS} rounds, {starts}, jobs of others: {Counter(results)}")  # noqa: T201 - for those who run them all


@pytest.mark.parametrize(
    "what",
    [
        "an unlinked file",
        pytest.param("an unlinked file in /tmp", marks=pytest.mark.release),
        pytest.param("a deep file", marks=pytest.mark.release),
    ],
)
def test_a_job_that_hides_what_it_writes_is_stopped(server: SmallServer, what: str) -> None:
    others = round_of_a_job(server, what, FILLERS[what])
    assert {result_of(server, id) for id in others} <= {SUCCEEDED, NO_ROOM}


def round_of_a_job(server: SmallServer, what: str, command: str) -> list[str]:
    """A job takes all it can while others submit, the server is killed and started. The job is stopped, no other is."""
    with Others(server) as others:
        filler = server.submit(job_file(command))["id"]
        wait_until(lambda: has_log(server, filler), f"{what} fills")
        wait_until(lambda: others.jobs, "others submit")
        server.kill()
        server.start()
        before = len(others.jobs)
        wait_until(lambda: len(others.jobs) > before, "others submit after the start")
        if what == "its log":  # it is cut; the task is stopped only where it kept the server from starting
            with server.client() as client:
                client.post(f"/jobs/{filler}/stop").raise_for_status()
        ended = server.wait(filler)
        if ended["state"] != "Cancelled":
            assert "disk" in ended["message"] or "wrote" in ended["message"], ended["message"]
    assert not others.problems, others.problems[:3]
    wait_until(lambda: not is_full(server), "there is room again")
    return others.jobs


def round_of_another_program(server: SmallServer, ballast: Ballast, *, files: bool, clean: bool) -> list[str]:
    """Nothing can be stopped then: jobs wait, and say why, also after a start on the full disk."""
    fill = ballast.fill_files if files else ballast.fill_bytes

    def fills() -> bool:
        """Files of the last round's tasks may be removed only now, and make room."""
        fill()
        return is_full(server)

    if clean:
        server.stop()
        fill()
        server.start()
    wait_until(fills, "it says that the disk is full")
    first = server.submit(job_file("echo done"))["id"]
    if not clean:
        server.kill()
        fill()
        server.start()
    health = server.get("/health").json()
    assert health["status"] == "degraded"
    assert any(note.startswith("The server's disk is full") for note in health["notes"])
    second = server.submit(job_file("echo done"))["id"]
    for id in (first, second):
        job = server.get(f"/jobs/{id}").json()
        assert job["state"] == "Pending"
        why = server.get(f"/jobs/{id}/why").text
        assert "disk is full" in why, why
    ballast.remove()
    wait_until(lambda: not conditions_of(server), "there is room again")
    assert server.wait(first)["state"] == server.wait(second)["state"] == "Succeeded"
    return [first, second]


@pytest.mark.release
def test_uploads_are_refused_before_the_disk_is_full(server: SmallServer) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(400):
            yield bytes(1 << 20)

    with server.client() as client:
        reply = client.put("/groups/default/files/large", content=pieces())
    assert reply.status_code == 503, reply.text
    assert "the disk for shared files is full" in reply.json()["error"]["message"]
    assert conditions_of(server) <= {"disk-low"}
    assert result_of(server, server.submit(job_file("echo done"))["id"]) == SUCCEEDED


@pytest.mark.release
def test_pruning_works_on_a_full_disk(server: SmallServer, disk: Path) -> None:
    done = server.submit(job_file("seq 1000000"))["id"]
    assert server.wait(done)["state"] == "Succeeded"
    ballast = Ballast(disk)
    ballast.fill_bytes()
    wait_until(lambda: is_full(server), "it says that the disk is full")
    with server.client() as client:
        assert client.get("/storage").json()["disk"]["free"] < 5 << 20
        reply = client.post("/storage/prune", json={"kinds": ["logs", "metrics"], "dry_run": False})
    item, metrics = reply.json()["items"]
    assert (item["kind"], item["count"]) == ("logs", 1)
    assert (metrics["kind"], metrics["count"]) == ("metrics", 1)
    assert item["bytes"] > 0  # the monitor may have cut it before
    ballast.remove()
    wait_until(lambda: not conditions_of(server), "there is room again")
