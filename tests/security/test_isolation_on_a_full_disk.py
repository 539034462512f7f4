"""A job that fills the state folder's disk before a restart does not get rid of its sandbox."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.server import Server
from tests.engines.scenarios import need_isolation

from .member import Member, look_around

pytestmark = pytest.mark.release

WINDOWS = (0, 4096, 24 << 10, 64 << 10, 256 << 10)  # bytes left free for the sandbox trial


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 60 MB for the state folder."""
    need_isolation()
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "none", place]).returncode != 0:
        pytest.skip("only root can mount a small filesystem")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(folder: Path, left: int) -> Path:
    """Take all of a filesystem but so many bytes."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        os.posix_fallocate(file.fileno(), 0, max(1, free - left))
    return filler


def test_a_server_whose_disk_is_full_runs_no_job_without_its_sandbox(small_disk: Path) -> None:
    server = Server(small_disk / "home", HOLDFAST_SSH_ENABLED="false")
    server.start()
    try:
        mallory = Member(server, "mallory")
        for left in WINDOWS:
            server.kill()
            filler = fill(small_disk, left)
            server.start()
            assert server.get("/status").json()["engine"]["isolation"] == "full"
            filler.unlink()
            job = wait_for(lambda: mallory.submit(look_around(server.home)))
            assert server.wait(job)["state"] == "Succeeded"
            assert "READ-THE-KEY" not in mallory.log(job)
            assert "Seccomp:\t2" in mallory.log(job)
    finally:
        server.stop()


def wait_for(work: Callable[[], str]) -> str:
    """Once the server has noticed that there is room."""
    for _ in range(200):
        try:
            return work()
        except AssertionError as error:
            last = error
    raise last
