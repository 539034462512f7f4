"""Running tests as an ordinary user, from tests that run as root."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORDINARY = 100_000 + os.getpid()  # a user id that owns nothing, and shares its limits with no other run of tests

_POWERS = 1 << 0 | 1 << 6 | 1 << 7  # CAP_CHOWN, CAP_SETGID, CAP_SETUID


ALONE = "HOLDFAST_TESTS_ALONE"


def alone() -> bool:
    """No other tests run as this user."""
    return ALONE in os.environ


@contextmanager
def bombing() -> Iterator[None]:
    """One fork bomb at a time on this machine: two would leave nothing to the tests beside them."""
    turn = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY)  # there for every user, and nothing has to be written
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
    finally:
        os.close(turn)


def _can_become_another() -> bool:
    status = Path("/proc/self/status").read_text()
    (effective,) = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff")]
    return int(effective, 16) & _POWERS == _POWERS


only_root_can_become_another = pytest.mark.skipif(
    not _can_become_another(), reason="only root can become another user, and whoever runs the tests is not"
)


def run_as_ordinary_user(*tests: str, whole: bool = False, **env: str) -> None:
    """Run some tests in a pytest of their own, with those for releases if `whole`; they must pass."""
    base = Path(tempfile.mkdtemp(prefix="holdfast-tests-"))
    os.chown(base, ORDINARY, ORDINARY)
    quiet = ("-q", "-p", "no:cacheprovider", "--timeout=90")  # sooner than ours, so that it can say what hangs
    chosen = ("-m", "") if whole else ()
    command = [sys.executable, "-m", "pytest", *quiet, *chosen, f"--basetemp={base}/t", *tests]
    try:
        done = as_ordinary_user(command, base, **env)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def as_ordinary_user(command: list[str], home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=(),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
            ALONE: "1",
            "PYTHONPATH": f"{ROOT}:{ROOT}/src",
            **env,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
