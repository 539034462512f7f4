"""Ended tasks whose files are kept: entered once more, and nothing of what is known of them changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import ExecRefused, Isolation
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions, folder_engine
from holdfast.engines.embedded.cgroups import find_cgroups
from holdfast.engines.embedded.lifecycle import revived_tasks
from holdfast.engines.embedded.processes import read_start_ticks
from tests.contracts.engine_contract import Rig, launch, read_all, sweep, without_figures

from .archives import entry, shell_entries, tar
from .scenarios import folder_of, need, play
from .sessions import inside, let_in
from .test_exec_sessions import every_kind

FAILS = "echo mine >~/file; echo said; exit 3"


@every_kind
def test_the_files_of_an_ended_task(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        ended = await rig.run("a", FAILS, env={"MINE": "yes"})
        again = launch("a", FAILS, env={"MINE": "yes"})
        await asyncio.gather(*(let_in(rig.engine).revive_task(again) for _ in range(3)))
        said = await inside(rig.engine, "a", "cat ~/file; echo $MINE; echo more >>~/file")
        assert said == (0, "mine\nyes\n", "")
        assert len(await let_in(rig.engine).list_processes("a")) == 1
        assert without_figures(await rig.look("a")) == without_figures(ended)
        assert await read_all(rig.log("a")) == b"said\n"
        await rig.reopen()
        assert (await inside(rig.engine, "a", "cat ~/file")).out == "mine\nmore\n"
        assert without_figures(await rig.look("a")) == without_figures(ended)

    play(tmp_path, scenario, options)


def test_it_goes_when_nobody_is_inside_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revived_tasks, "_SESSION_CHECK_INTERVAL", 0.3)

    async def scenario(rig: Rig) -> None:
        await rig.run("a", FAILS)
        engine = let_in(rig.engine)
        await engine.revive_task(launch("a", FAILS))
        await inside(rig.engine, "a", "nohup setsid sleep 600 >/dev/null 2>&1 & sleep 1")  # it is kept that long
        pids = [info.pid for info in await engine.list_processes("a")]
        while any(read_start_ticks(pid) for pid in pids):
            await asyncio.sleep(0.01)
        with pytest.raises(ExecRefused):
            await inside(rig.engine, "a", "true")
        await engine.revive_task(launch("a", FAILS))
        assert (await inside(rig.engine, "a", "cat ~/file")).out == "mine\n"

    play(tmp_path, scenario)


@every_kind
def test_it_ends_when_it_is_stopped_or_removed(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("a", FAILS)
        engine = let_in(rig.engine)
        for end in (lambda: rig.engine.stop("a", 30), lambda: rig.engine.remove("a")):
            await engine.revive_task(launch("a", FAILS))
            await inside(rig.engine, "a", "nohup sleep 600 >/dev/null 2>&1 &")
            pids = [info.pid for info in await engine.list_processes("a")]
            assert len(pids) == 2
            await end()
            assert [pid for pid in pids if read_start_ticks(pid) is not None] == []
            assert groups_of("a") == []
            with pytest.raises(ExecRefused):
                await engine.list_processes("a")
        with pytest.raises(ExecRefused, match="files were deleted"):
            await engine.revive_task(launch("a", FAILS))
        assert await read_all(rig.log("a")) == b"said\n"

    def groups_of(attempt_id: str) -> list[str]:
        groups, _ = find_cgroups()
        name = f"{EmbeddedEngine(tmp_path)._task_folders.get_machine_wide_name(attempt_id)}~revived"
        return [path for path in groups.list_folders(name) if Path(path).exists()] if groups else []

    play(tmp_path, scenario, options)


def test_a_later_server_sweeps_it(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("a", FAILS)
        await let_in(rig.engine).revive_task(launch("a", FAILS))
        (standing,) = await let_in(rig.engine).list_processes("a")
        await rig.reopen()
        assert await sweep(rig.engine, []) == ["a"]
        assert read_start_ticks(standing.pid) is None
        assert not folder_of(tmp_path, "a").exists()

    play(tmp_path, scenario)


def test_one_that_is_being_stopped_is_waited_for(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(
            b"up", "a", "echo mine >~/file; trap 'sleep 0.5; exit 1' TERM; echo up; sleep 600 & wait"
        )
        reviving = asyncio.create_task(let_in(rig.engine).revive_task(launch("a", "true")))
        await asyncio.sleep(0.1)
        await rig.engine.stop("a", 30)
        await reviving
        assert (await inside(rig.engine, "a", "cat ~/file")).out == "mine\n"

    play(tmp_path, scenario)


def test_who_runs_or_never_ran_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_engine, "_STOP_TIMEOUT", 0.2)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        with pytest.raises(ExecRefused, match="still stopping"):
            await let_in(rig.engine).revive_task(launch("a", "true"))
        assert not Path(folder_of(tmp_path, "a")["revived"]).exists()
        for name in ("never", "../a"):
            with pytest.raises(ExecRefused):
                await let_in(rig.engine).revive_task(launch(name, "true"))

    play(tmp_path, scenario)


def test_changes_everywhere_and_mounts_are_there(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one").write_text("1")
    mounts = (Mount(volume=HostFolder(str(tmp_path / "data")), target="/data"),)

    async def scenario(rig: Rig) -> None:
        script = "echo t >/tmp/t; echo v >/var/tmp/v; cat /data/one; cd /tmp/w; exit 3"
        await rig.run("a", script, mounts=mounts, workdir="/tmp/w")
        await let_in(rig.engine).revive_task(launch("a", script, mounts=mounts, workdir="/tmp/w"))
        said = await inside(rig.engine, "a", "cat /tmp/t /var/tmp/v /data/one; pwd; cat /run/holdfast/script")
        assert said.out == f"t\nv\n1/tmp/w\n{script}"

    play(tmp_path / "home", scenario)


def test_links_that_a_task_left_lead_nowhere(tmp_path: Path) -> None:
    """What sets a sandbox up follows links, and sees the machine's files while it does."""
    need(Isolation.FULL, Isolation.READ_ONLY)
    (tmp_path / "data").mkdir()
    (tmp_path / "goal").mkdir(mode=0o777)
    mounts = (Mount(volume=HostFolder(str(tmp_path / "data")), target="/x/made"),)
    goal = f"/oldroot{tmp_path}/goal"
    ways = {
        "mount": f"mkdir /y; mv /x /y; ln -s {goal} /x; ls -ld /x",
        "own": f"mv /run/holdfast /run/old || :; ln -sn {goal} /run/holdfast || :; ls -ld /run/holdfast",
    }

    async def scenario(rig: Rig) -> None:
        for name, way in ways.items():
            seen = await rig.run(name, f"{way}; echo done; exit 3", mounts=mounts)
            assert seen.code == 3, await read_all(rig.log(name))
            if b"->" not in await read_all(rig.log(name)):
                continue  # the task could not even make it
            with pytest.raises(ExecRefused, match="replaced a part of"):
                await let_in(rig.engine).revive_task(launch(name, way, mounts=mounts))
        assert list((tmp_path / "goal").iterdir()) == []

    play(tmp_path / "home", scenario)


def test_it_stands_on_the_image_that_it_ran_on(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        engine = rig.engine
        assert isinstance(engine, EmbeddedEngine)
        for version in ("one", "two"):
            file = tmp_path / f"{version}.tar"
            file.write_bytes(tar([*shell_entries(), entry("version", f"{version}\n".encode())]))
            await engine.import_image("mine", file)
            assert (await rig.run(version, "cat /version; exit 3", image="mine")).seen is ObservedState.EXITED
        for version in ("one", "two"):
            await let_in(engine).revive_task(launch(version, "", image="mine"))
            assert (await inside(engine, version, "read line </version; echo $line")).out == f"{version}\n"
        await engine.stop("one", 0)
        await engine.remove_image("mine")
        with pytest.raises(ExecRefused, match="image"):
            await let_in(engine).revive_task(launch("one", "", image="mine"))

    play(tmp_path / "home", scenario)
