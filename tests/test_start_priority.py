"""A server starts at a raised priority, and nothing that it runs has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server import Server

_TRY = """
import os, threading
from holdfast.start_priority import raise_start_priority, restore_priority
os.setsid()
raise_start_priority()
stay = threading.Event()
threading.Thread(target=stay.wait).start()
def values():
    nice = {os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in os.listdir("/proc/self/task")}
    return [*nice, *map(int, open("/proc/self/autogroup").read().split()[-1:])]
print(*values())
restore_priority()
print(*values())
stay.set()
"""


def test_it_is_raised_and_restored_for_all_threads() -> None:
    if not _may_raise():
        pytest.skip("this user may not raise the priority of a process")
    before = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run([sys.executable, "-c", _TRY], capture_output=True, text=True, check=True)
    raised, restored = (list(map(int, line.split())) for line in done.stdout.splitlines())
    assert set(raised) == {-15}
    assert restored == [before, 0]


def test_without_permission_nothing_changes() -> None:
    lowered = f"import os; os.setpriority(os.PRIO_PROCESS, 0, 5); os.setuid(65534)\n{_TRY}"
    as_nobody = lowered if os.geteuid() == 0 else _TRY
    done = subprocess.run([sys.executable, "-c", as_nobody], capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip("another user cannot read this installation")
    assert done.returncode == 0, done.stderr
    raised, restored = done.stdout.splitlines()
    assert raised == restored


def test_neither_the_server_that_is_up_nor_its_tasks_have_it(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.afresh = True
    server.start()
    try:
        assert server.process is not None
        threads = Path(f"/proc/{server.process.pid}/task").iterdir()
        mine = os.getpriority(os.PRIO_PROCESS, 0)
        assert {os.getpriority(os.PRIO_PROCESS, int(thread.name)) for thread in threads} == {mine}
        job = server.submit("name: calm\ncommand: nice\n")
        assert server.wait(job["id"])["state"] == "Succeeded"
        assert server.get(f"/jobs/{job['id']}/log").text.split() == [str(mine)]
    finally:
        server.stop()


def _may_raise() -> bool:
    return subprocess.run(["nice", "-n", "-15", "true"], capture_output=True, check=False).stderr == b""


@pytest.mark.release
def test_a_detached_server_and_its_tasks_do_not_have_it_either(tmp_path: Path) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    env |= {"HOLDFAST_HOME": str(tmp_path), "HOLDFAST_SSH_PORT": "0", "HOME": str(tmp_path)}

    def holdfast(*words: str) -> str:
        command = [sys.executable, "-m", "holdfast", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    holdfast("up", "--detach", "--port", "0")
    try:
        assert holdfast("submit", "-f", "--", "nice").split() == [str(os.getpriority(os.PRIO_PROCESS, 0))]
    finally:
        holdfast("down")
