"""The server dies, the runner dies, the machine goes down: nothing runs twice, and nothing is made up."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.job import Mount, Resources
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.cgroups import find_cgroups
from holdfast.engines.embedded.folder_content import StartNote, parse_start_note
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders
from holdfast.engines.embedded.processes import read_boot_id
from holdfast.engines.embedded.task_folder import TaskFolder, is_locked, try_lock
from tests.contracts.engine_contract import Rig, launch, read_all, sweep

from .scenarios import folder_of, need, play

PLAIN = EmbeddedOptions(isolation="off")


def kill_runner(folder: TaskFolder) -> None:
    pid = folder.read_claim().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("options", [EmbeddedOptions(), PLAIN], ids=["sandboxed", "plain"])
def test_a_killed_runner_is_a_lost_task(tmp_path: Path, options: EmbeddedOptions) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        kill_runner(folder_of(tmp_path, "a"))
        seen = await rig.end_of("a")
        assert seen.seen is ObservedState.LOST
        assert "killed" in seen.message
        again = await rig.engine.start(launch("a", "echo up; sleep 600"))
        assert again.seen is ObservedState.LOST
        assert await read_all(rig.log("a")) == b"up\n"

    play(tmp_path, scenario, options)


def test_a_runner_killed_while_no_server_looked_is_found_lost(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        await rig.engine.close()
        kill_runner(folder_of(tmp_path, "a"))
        await rig.open()
        seen = await rig.look("a")
        if seen.seen is ObservedState.RUNNING:  # the kernel has not yet buried it
            seen = await rig.end_of("a")
        assert seen.seen is ObservedState.LOST

    play(tmp_path, scenario)


def test_a_killed_sandbox_is_not_the_programs_fault(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        runner = folder_of(tmp_path, "a").read_claim().pid
        bwrap = int(Path(f"/proc/{runner}/task/{runner}/children").read_text())
        os.kill(bwrap, signal.SIGKILL)
        seen = await rig.end_of("a")
        assert (seen.seen, seen.code) == (ObservedState.LOST, None)
        assert "from outside" in seen.message

    play(tmp_path, scenario)


def test_a_sandbox_that_does_not_report_its_exit_is_stopped_all_the_same(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        runner = folder_of(tmp_path, "a").read_claim().pid
        os.kill(int(Path(f"/proc/{runner}/task/{runner}/children").read_text()), signal.SIGSTOP)
        await rig.engine.stop("a", 0)
        seen = await rig.end_of("a")
        assert (seen.seen, seen.code, seen.cause) == (ObservedState.EXITED, 137, "")
        assert (await rig.look("a")).code == 137

    play(tmp_path, scenario)


def test_a_set_up_that_fails_is_told_in_the_sandboxs_words(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        mount = Mount(volume=HostFolder("/etc/hostname"), target="/etc")
        seen = await rig.run("a", "true", mounts=(mount,))
        assert (seen.seen, seen.code) == (ObservedState.LOST, None)
        assert "/etc" in seen.message

    play(tmp_path, scenario)


def test_after_a_restart_of_the_machine_tasks_are_lost(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        await rig.engine.close()
        folder = folder_of(tmp_path, "a")
        kill_runner(folder)
        _age(folder)
        await rig.open()
        await _until_free(folder)
        seen = await rig.look("a")
        assert seen.seen is ObservedState.LOST
        assert "restarted" in seen.message

    play(tmp_path, scenario)


def _age(folder: TaskFolder) -> None:
    """As if it was started before the machine went down."""
    note = folder.read_start_note()
    assert note is not None
    folder.write_start_note(StartNote(boot="an earlier one", at=note.at, sandbox=note.sandbox, cgroups=note.cgroups))


async def _until_free(folder: TaskFolder) -> None:
    while folder.is_alive():
        await asyncio.sleep(0.005)


def test_what_was_about_to_run_when_the_machine_went_down_is_not_run(tmp_path: Path) -> None:
    """The claim may have been lost with the power; that it did run cannot be ruled out."""

    async def scenario(rig: Rig) -> None:
        folder = folder_of(tmp_path, "a")
        Path(folder.path).mkdir()
        folder.write_start_note(_note(boot="an earlier one"))
        assert (await rig.look("a")).seen is ObservedState.LOST
        assert (await rig.engine.start(launch("a", "echo ran"))).seen is ObservedState.LOST

    play(tmp_path, scenario)


@pytest.mark.release_after(2)
@pytest.mark.parametrize("files", [(), ("claim",), ("claim", "start"), ("claim", "start", "stdout", "stderr")])
def test_a_start_cut_short_before_the_runner_lived_can_be_repeated(tmp_path: Path, files: tuple[str, ...]) -> None:
    async def scenario(rig: Rig) -> None:
        folder = folder_of(tmp_path, "a")
        Path(folder.path).mkdir()
        for name in files:
            if name == "start":
                folder.write_start_note(_note(boot=read_boot_id()))
            else:
                Path(folder[name]).touch()
        assert (await rig.look("a")).seen is ObservedState.ABSENT
        assert (await rig.run("a", "echo ran; exit 6")).code == 6
        assert await read_all(rig.log("a")) == b"ran\n"

    play(tmp_path, scenario)


def test_a_half_written_end_is_no_end(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        folder = folder_of(tmp_path, "a")
        Path(folder.path).mkdir()
        folder.write_start_note(_note(boot=read_boot_id()))
        Path(folder["claim"]).write_text("run 1 2\nend 0 1234.5")
        assert (await rig.look("a")).seen is ObservedState.LOST

    play(tmp_path, scenario)


def _note(boot: str) -> StartNote:
    note = parse_start_note(f'[1,"{boot}",1700000000000,1,0,[],[],""]')
    assert note is not None
    return note


def test_a_lock_outlives_the_one_who_took_it_first(tmp_path: Path) -> None:
    """What everything rests on: the runner holds the server's lock, and looking at it takes nothing."""
    folder = TaskFolder(str(tmp_path))
    claim = folder.open_claim()
    assert try_lock(claim)
    holder = subprocess.Popen(["sleep", "600"], pass_fds=[claim])
    os.close(claim)
    again = folder.open_claim()
    try:
        assert folder.is_alive()
        assert is_locked(again)
        assert not try_lock(again)
        holder.kill()
        holder.wait()
        assert not folder.is_alive()
        assert try_lock(again)
        assert folder.is_alive()
    finally:
        os.close(again)


COUNT = 12
SERVER = """
import asyncio, sys
from pathlib import Path
from holdfast.core.job import Mount, Resources
from holdfast.core.volumes import HostFolder
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from tests.contracts.engine_contract import launch

async def main(home, shared, isolation, count):
    engine = EmbeddedEngine(Path(home), EmbeddedOptions(isolation=isolation))
    await engine.open(lambda seen: None)
    print("open", flush=True)
    mounts = (Mount(volume=HostFolder(shared), target=shared, read_only=False),)
    starts = [
        engine.start(launch(f"t{n}", f"echo {n} >>{shared}/ran; echo out {n}; exit {n}", mounts=mounts))
        for n in range(int(count))
    ]
    await asyncio.gather(*starts)
    print("started", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.release
@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_a_server_killed_at_any_moment_runs_everything_once(tmp_path: Path, isolation: str) -> None:
    """Servers that start the same tasks over and over and are killed in the midst of it; then one that may finish."""
    shared = tmp_path / "shared"
    shared.mkdir()
    home = tmp_path / "home"
    arguments = [str(home), str(shared), isolation, str(COUNT)]
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", SERVER, *arguments], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"open\n"
            _sleep_a_random_moment()
            server.kill()
    ends = asyncio.run(_finish(home, shared, isolation))
    assert {name: (seen.seen, seen.code) for name, seen in ends.items()} == {
        f"t{number}": (ObservedState.EXITED, number) for number in range(COUNT)
    }
    assert sorted((shared / "ran").read_text().split(), key=int) == [str(number) for number in range(COUNT)]


def _sleep_a_random_moment() -> None:
    """Not to wait for anything: the moment of death is what is random here."""
    import time

    time.sleep(random.uniform(0, 0.06))


async def _finish(home: Path, shared: Path, isolation: str) -> dict[str, Observation]:
    rig = Rig(lambda: EmbeddedEngine(home, EmbeddedOptions(isolation=isolation)))
    await rig.open()
    mounts = (Mount(volume=HostFolder(str(shared)), target=str(shared), read_only=False),)
    ends = {}
    for number in range(COUNT):
        script = f"echo {number} >>{shared}/ran; echo out {number}; exit {number}"
        ends[f"t{number}"] = await rig.run(f"t{number}", script, mounts=mounts)
        log = rig.log(f"t{number}", LogStream.MERGED)
        assert await read_all(log) == f"out {number}\n".encode()
    await sweep(rig.engine, [])
    await rig.close()
    return ends


def test_groups_of_a_server_that_died_are_removed_at_the_next_start(tmp_path: Path) -> None:
    groups, why = find_cgroups()
    if groups is None:
        pytest.skip(f"no control groups can be made here: {why}")
    name_of = TaskFolders(tmp_path).get_machine_wide_name
    left, lives = groups.list_folders(name_of("left")), groups.list_folders(name_of("lives"))

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "lives", "echo up; sleep 600")
        await rig.engine.close()
        groups.create_cgroup(name_of("left"), Resources(), 10)
        await rig.open()
        assert not any(map(os.path.exists, left))
        assert all(map(os.path.exists, lives))

    play(tmp_path, scenario)
