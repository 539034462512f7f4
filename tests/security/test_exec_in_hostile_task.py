"""A task watches for those who enter it: no process of the server that it can see or signal has more rights than it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from holdfast import runtime
from holdfast.engines.base import ExecCommand, ExecKind, Isolation
from holdfast.engines.embedded.exec.exec_sessions import _describe_refusal
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import need, play
from tests.engines.sessions import Said, inside, let_in

SESSIONS = 20
# Looks at every process as quickly as it can, stops those that can do more than it can, and tells of them.
WATCHER = r"""
import os, signal, time
def status(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
mine = int(status("self")["CapEff"], 16)
seen = set()
print("up", flush=True)
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found = status(pid)
        except OSError:
            continue
        if found.get("Name") == "holdfast-enter" and pid not in seen:
            more = int(found["CapPrm"], 16) & ~mine
            print("MORE" if more else "same", pid, flush=True)
            if more:
                os.kill(int(pid), signal.SIGKILL)
            else:
                seen.add(pid)
"""


def test_nobody_who_comes_in_has_more_rights_than_the_task(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"exec python3 -c '{WATCHER}'")
        for number in range(SESSIONS):
            assert await inside(rig.engine, "a", f"echo {number}") == Said(0, f"{number}\n", "")
        staying = await let_in(rig.engine).open_session(
            "a", ExecCommand(kind=ExecKind.SFTP)
        )  # keeps its name, so it is seen
        log = rig.log("a")
        while b"same" not in (written := await read_all(log)) and b"MORE" not in written:
            await log.wait_for_growth(len(written), 1.0)
        staying.close()
        assert b"MORE" not in written

    play(tmp_path, scenario)


# Starts a helper that is stopped as soon as it is born, as a task can do, and tells its number and state.
STOPPED_AT_BIRTH = r"""
import os, signal, sys
sys.path.append(sys.argv[1])
from exec_helper import main as helper
forks, fork = [], helper.fork_process
def fork_and_stop():
    forks.append(1)
    child = fork()
    if child == 0 and len(forks) == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    return child
helper.fork_process, helper.wait_for_command = fork_and_stop, int
told = os.dup(1)
request = {"kind": "stacks", "joins": [sys.argv[2]], "init": 0, "runner": os.getpid(), "env": {}}
child = helper.start_command(request, None)
os.waitid(os.P_PID, child, os.WSTOPPED)
os.write(told, b"%d" % child)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""


def test_a_helper_that_is_stopped_at_birth_is_put_under_the_limits(tmp_path: Path) -> None:
    procs = tmp_path / "cgroup.procs"
    procs.touch()
    folder = str(Path(runtime.__file__).parent)
    command = [sys.executable, "-I", "-S", "-c", STOPPED_AT_BIRTH, folder, str(procs)]
    done = subprocess.run(command, capture_output=True, timeout=30, check=True)
    assert int(done.stdout) > 0
    assert procs.read_bytes() == done.stdout


def test_a_session_that_the_task_ends_is_told_as_that() -> None:
    assert "The task ended the session" in _describe_refusal("exit 137")
