"""Unix users of tests, with names that no other test uses."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LOCK_TIMEOUT = 30.0  # seconds; other tests change the user list at the same time


@contextmanager
def create_users(count: int) -> Iterator[list[str]]:
    """Create ordinary users without a home; delete them at the end."""
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd, to create Unix users")
    names = [f"hf{os.urandom(5).hex()}" for _ in range(count)]
    try:
        for name in names:
            _change_users("useradd", "--no-create-home", "--shell", "/bin/sh", name)
        yield names
    finally:
        for name in names:
            subprocess.run(["userdel", "--force", name], capture_output=True)


def _change_users(*command: str) -> None:
    until = time.monotonic() + LOCK_TIMEOUT
    while (done := subprocess.run(command, capture_output=True, text=True)).returncode:
        assert time.monotonic() < until, done.stderr
        time.sleep(0.2)


def get_uid(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def remove_folder(folder: Path) -> None:
    """Delete a folder in which nodes may still delete the files of tasks that were killed."""
    until = time.monotonic() + LOCK_TIMEOUT
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)
