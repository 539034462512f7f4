"""A look into processes of a task: by a program of ours, with what the task has."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from holdfast.engines.base import ExecCommand, ExecKind, Isolation, TaskProcess
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.exec.session import EmbeddedSession
from holdfast.engines.embedded.processes import read_start_ticks
from tests.contracts.engine_contract import Rig

from .archives import config, docker_archive, entry, folder, shell_entries, tar
from .hostile_programs import LIBRARY_THAT_WAITS
from .scenarios import need, play
from .sessions import inside, let_in
from .test_modes import PLAIN

HUNG = """
import time
def hangs():
    time.sleep(1000)
print("up", flush=True)
hangs()
"""

ENDLESS = f"""{LIBRARY_THAT_WAITS}
import time
print("up", flush=True)
time.sleep(1000)
"""
COPIED = """
real="$(readlink -f "$(command -v python3)")"; export PYTHONHOME="$("$real" -c 'import sys; print(sys.base_prefix)')"
cp "$real" python3; ./python3 -S -c "$PROGRAM"
"""
WAYS = "cat environ maps; head -c 1 mem; ls root/; readlink -v fd/0"
SYS_PTRACE = 1 << 19


async def process_of(rig: Rig) -> TaskProcess:
    (found,) = [info for info in await let_in(rig.engine).list_processes("a") if info.python]
    return found


async def assert_seen(rig: Rig) -> None:
    look = ExecCommand(kind=ExecKind.STACK_DUMP, process=(await process_of(rig)).inner_pid)
    said = await inside(rig.engine, "a", look)
    assert said.code == 0, said
    (thread,) = json.loads(said.out)
    assert [frame["name"] for frame in thread["frames"]] == ["hangs", "<module>"]


@pytest.mark.parametrize("options", [None, PLAIN], ids=["sandbox", "plain"])
def test_a_process(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", 'exec python3 -c "$PROGRAM"', env={"PROGRAM": HUNG})
        await assert_seen(rig)

    play(tmp_path, scenario, options)


def test_an_image_that_has_nothing_but_python(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    library = Path(os.__file__).parent
    files = [library / "os.py", *sorted((library / "encodings").glob("*.py"))]
    modules = [entry(f"usr/lib/{library.name}/{path.relative_to(library)}", path.read_bytes()) for path in files]
    program = f"/usr/bin/{library.name}"
    image = tmp_path / "python.tar"
    image.write_bytes(docker_archive([tar([*shell_entries(program), folder("usr"), *modules])], config()))

    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, EmbeddedEngine)
        await rig.engine.import_image("python:1", image)
        script = f'PYTHONHOME=/usr exec /bin/{library.name} -S -c "$PROGRAM"'
        await rig.start_and_wait_for(b"up", "a", script, env={"PROGRAM": HUNG}, image="python:1")
        await assert_seen(rig)

    play(tmp_path / "home", scenario)


def test_what_looks_has_the_tasks_files_and_none_of_its_variables_and_cannot_be_looked_into(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", COPIED, env={"PROGRAM": ENDLESS, "RUST_LOG": "trace"})
        target = await process_of(rig)
        session = await let_in(rig.engine).open_session(
            "a", ExecCommand(kind=ExecKind.STACK_DUMP, process=target.inner_pid)
        )
        spy = await _at_work(rig)
        for kind in ("mnt", "pid", "user", "cgroup"):
            assert Path(f"/proc/{spy.pid}/ns/{kind}").samefile(f"/proc/{target.pid}/ns/{kind}")
        assert Path(f"/proc/{spy.pid}/cgroup").read_text() == Path(f"/proc/{target.pid}/cgroup").read_text()
        more = _rights(spy.pid, "CapPrm") & ~_rights(target.pid, "CapPrm")
        assert more == SYS_PTRACE
        assert _rights(spy.pid, "NoNewPrivs") == 1
        assert _rights(spy.pid, "Seccomp") == _rights(target.pid, "Seccomp")
        said = await inside(rig.engine, "a", f"cd /proc/{spy.inner_pid}; {WAYS}")
        assert said.out == ""
        assert said.errors.lower().count("permission denied") == 5
        session.send_signal(signal.SIGKILL)
        assert await session.wait() == 128 + signal.SIGKILL
        session.close()
        assert read_start_ticks(spy.pid) is None

    play(tmp_path, scenario)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look at what goes in")
def test_what_goes_in_has_no_files_of_the_machine_from_its_birth(tmp_path: Path) -> None:
    """Nor has what it is born of: a look that may trace could follow a link of the task's through it."""
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", 'exec python3 -c "$PROGRAM"', env={"PROGRAM": HUNG})
        target = await process_of(rig)
        session = await let_in(rig.engine).open_session("a", ExecCommand(argv=("cat",)))
        assert isinstance(session, EmbeddedSession)
        for place in ("root", "ns/mnt"):
            assert Path(f"/proc/{session.helper_pid}/{place}").samefile(f"/proc/{target.pid}/{place}")
        session.close()

    play(tmp_path, scenario)


async def _at_work(rig: Rig) -> TaskProcess:
    while True:
        for info in await let_in(rig.engine).list_processes("a"):
            if info.command[0] == "py-spy":
                return info
        await asyncio.sleep(0.01)


def _rights(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")), 16)
