"""Where the programs of a task are right now."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Engine, ExecRefused, SupportsExec
from holdfast.services.inside import stack_dumps
from tests.engines.hostile_programs import LIBRARY_THAT_WAITS
from tests.server.rig import Rig
from tests.services.house import TIMEOUT

from .lines import running

pytestmark = pytest.mark.anyio

HUNG = """
import threading
lock = threading.Lock()
lock.acquire()
def wait_for_lock():
    lock.acquire()
def first():
    second()
def second():
    threading.Event().wait()
threading.Thread(target=wait_for_lock, name="loader", daemon=True).start()
first()
"""


Processes = list[dict[str, Any]]


async def stacks_of(rig: Rig, command: str, there: Callable[[Processes], bool], program: str = HUNG) -> Processes:
    """Once what is meant is `there`."""
    job = await running(rig, json.dumps({"name": "hung", "env": {"PROGRAM": program}, "command": command}))
    async with asyncio.timeout(TIMEOUT):
        while True:
            reply = await rig.get(f"/jobs/{job.id}/tasks/main-0/stacks")
            assert reply.status_code == 200 or "still being set up" in reply.text
            processes: Processes = reply.json().get("processes", [])
            if there(processes):
                return processes


def calls(process: dict[str, Any]) -> set[str]:
    return {frame["function"] for thread in process["threads"] for frame in thread["frames"]}


def hangs(processes: Processes) -> bool:
    return any({"second", "wait_for_lock"} <= calls(each) for each in processes)


def runs(command: str) -> Callable[[Processes], bool]:
    return lambda processes: any(each["command"] == command for each in processes)


def fails(words: str) -> Callable[[Processes], bool]:
    return lambda processes: any(words in (each["error"] or "") for each in processes)


async def test_every_thread_of_a_hung_program(rig: Rig) -> None:
    processes = await stacks_of(rig, 'exec python3 -c "$PROGRAM"', hangs)
    python = [each for each in processes if each["python"]]
    assert len(python) == 1
    assert python[0]["error"] is None
    main = next(thread for thread in python[0]["threads"] if {"first"} <= {f["function"] for f in thread["frames"]})
    names = [frame["function"] for frame in main["frames"]]
    assert names.index("second") < names.index("first")  # the innermost first
    assert next(frame["line"] for frame in main["frames"] if frame["function"] == "first") == 8


BUSY = """
import threading
def sleep():
    threading.Event().wait()
threading.Thread(target=sleep, daemon=True).start()
def count():
    while True:
        pass
count()
"""


async def test_who_works_is_told_from_who_waits(rig: Rig) -> None:
    """As soon as both do: they may be about to."""
    await stacks_of(rig, 'exec python3 -c "$PROGRAM"', _one_works_and_one_waits, BUSY)


def _one_works_and_one_waits(processes: Processes) -> bool:
    threads = [thread for each in processes for thread in each["threads"]]
    active = {function: thread["active"] for thread in threads for function in _functions(thread)}
    return (active.get("count"), active.get("sleep")) == (True, False)


def _functions(thread: dict[str, Any]) -> list[str]:
    return [frame["function"] for frame in thread["frames"]]


async def test_another_program_tells_what_it_waits_for(rig: Rig) -> None:
    processes = await stacks_of(rig, "sleep 1000; true", runs("sleep 1000"))
    sleeping = next(each for each in processes if each["command"] == "sleep 1000")
    assert (sleeping["python"], sleeping["threads"], sleeping["state"]) == (False, [], "sleeping")
    shell = next(each for each in processes if each["pid"] == sleeping["parent"])
    assert "bash" in shell["command"]


def _lies(processes: Processes) -> bool:
    return any(each["command"] == "./python3 1000" and each["python"] for each in processes)


async def test_a_program_that_only_claims_to_be_python_is_told(rig: Rig) -> None:
    processes = await stacks_of(rig, "cp /bin/sleep python3; ./python3 1000", _lies)
    liar = next(each for each in processes if each["command"] == "./python3 1000")
    assert liar["threads"] == []
    assert liar["error"]


async def test_many_programs_are_looked_into_only_so_far(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_dumps, "MAX_INSPECTED_PROCESSES", 1)
    both = 'python3 -c "$PROGRAM" & python3 -c "$PROGRAM"'
    processes = await stacks_of(rig, both, lambda all: hangs(all) and fails("Skipped: ")(all))
    assert sorted(bool(each["threads"]) for each in processes if each["python"]) == [False, True]


async def test_what_takes_too_long_is_given_up(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_dumps, "DUMP_TIMEOUT", -1.0)
    await stacks_of(rig, 'exec python3 -c "$PROGRAM"', fails("Timed out"))


async def test_a_stack_that_is_too_long_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_dumps, "MAX_OUTPUT_SIZE", 100)
    await stacks_of(rig, 'exec python3 -c "$PROGRAM"', fails("too large to show"))


# The kernel names files of it that are gone, and where they were there are links out of the sandbox.
MISLEADING = """
import mmap, os, subprocess
path = os.path.abspath("libpython3.11.so.1.0")
with open(path, "wb") as file:
    file.write(b"\\x7fELF" + bytes(8192))
with open(path, "rb") as file:
    kept = mmap.mmap(file.fileno(), 8192, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
for gone in (path, os.path.abspath("python3")):
    os.unlink(gone)
    for planted in (gone, gone + " (deleted)"):
        os.symlink("TARGET", planted)
subprocess.run(["sleep", "1000"])
"""
COPIED = """
real="$(readlink -f "$(command -v python3)")"; export PYTHONHOME="$("$real" -c 'import sys; print(sys.base_prefix)')"
cp "$real" python3; ./python3 -S -c "$PROGRAM"
"""
IN_OPEN = 0x20


async def test_links_of_a_task_do_not_lead_the_look_to_files_of_the_machine(rig: Rig, tmp_path: Path) -> None:
    target = tmp_path / "fifo"
    os.mkfifo(target)
    libc = ctypes.CDLL(None, use_errno=True)
    notifications = libc.inotify_init1(os.O_NONBLOCK)
    try:
        assert libc.inotify_add_watch(notifications, os.fsencode(target), IN_OPEN) >= 0
        processes = await stacks_of(rig, COPIED, runs("sleep 1000"), MISLEADING.replace("TARGET", str(target)))
        misleading = [each for each in processes if each["python"] and "libpython" in each["command"]]
        assert misleading
        assert "Timed out" not in (misleading[0]["error"] or "")
        with pytest.raises(BlockingIOError):  # it was never opened
            os.read(notifications, 4096)
    finally:
        os.close(notifications)


ENDLESS = f"""{LIBRARY_THAT_WAITS}
import subprocess
if os.fork():
    os.fork()
subprocess.run(["sleep", "1000"])
"""


@pytest.mark.release
async def test_one_user_has_only_so_many_looks_at_once_and_they_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.house.services.stacks._limiter, "_per_key", 2)
    monkeypatch.setattr(stack_dumps, "DUMP_TIMEOUT", 3.0)
    job = await running(rig, json.dumps({"name": "endless", "env": {"PROGRAM": ENDLESS}, "command": COPIED}))
    entrance = await rig.house.services.task_access.find_target(rig.house.admin, job.id, None)
    engine: Engine = rig.house.engine

    async def count(command: str) -> int:
        assert isinstance(engine, SupportsExec)
        try:
            return sum(info.command[0] == command for info in await engine.list_processes(entrance.attempt_id))
        except ExecRefused:  # it is still being set up
            return 0

    while await count("sleep") < 3:
        await asyncio.sleep(0.01)
    asked = asyncio.create_task(rig.get(f"/jobs/{job.id}/tasks/main-0/stacks"))
    most = 0
    while not asked.done():
        most = max(most, await count("py-spy"))
        await asyncio.sleep(0.01)
    assert most == 2
    errors = [each["error"] for each in (await asked).json()["processes"] if each["python"]]
    assert [error for error in errors if "Timed out" in error] == errors
    assert len(errors) == 3
    while await count("py-spy"):
        await asyncio.sleep(0.01)
