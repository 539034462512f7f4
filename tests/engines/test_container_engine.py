"""The container engine on real daemons, beyond the contract: from restarts of the daemon to hostile tasks."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Mount, Resources
from holdfast.core.volumes import HostFolder, SharedFolder
from holdfast.engines.base import ExecCommand, ExecKind, LogStream, Terminal
from holdfast.engines.container import ContainerEngine, ContainerOptions
from holdfast.engines.container.container_folder import ContainerFolder
from holdfast.engines.container.names import ContainerNames
from tests.container_daemons import (
    BASH_IMAGE,
    IMAGE,
    NO_SHELL_IMAGE,
    ContainerDaemon,
    Dockerd,
    PodmanService,
    run_daemon,
)
from tests.contracts.engine_contract import TIMEOUT, Rig, read_all, sweep

from .sessions import Screen, inside, let_in

FOREVER = "echo up; sleep 600"


@pytest.fixture(
    scope="module", params=[Dockerd, pytest.param(PodmanService, marks=pytest.mark.release)], ids=["docker", "podman"]
)
def daemon(request: pytest.FixtureRequest) -> Iterator[ContainerDaemon]:
    with run_daemon(request.param) as daemon:
        yield daemon


def play(daemon: ContainerDaemon, home: Path, scenario: Callable[[Rig], Awaitable[None]], **options: Any) -> None:
    async def go() -> None:
        given = ContainerOptions(socket=daemon.socket, daemon_interval=0.1, **options)
        rig = Rig(lambda: ContainerEngine(home, given), IMAGE)
        await rig.open()
        try:
            await asyncio.wait_for(asyncio.ensure_future(scenario(rig)), TIMEOUT)
        finally:
            await sweep(rig.engine, [])
            await rig.close()

    asyncio.run(go())


def folder_of(home: Path, attempt_id: str) -> ContainerFolder:
    return ContainerFolder(str(home / "tasks" / attempt_id))


def name_of(rig: Rig, attempt_id: str) -> str:
    assert isinstance(rig.engine, ContainerEngine)
    names: ContainerNames = rig.engine._names
    return names.make_name(attempt_id)


def inspect(daemon: ContainerDaemon, name: str) -> dict[str, Any]:
    with daemon.client() as client:
        found: dict[str, Any] = client.get(f"/containers/{name}/json").json()
        return found


async def seen_again(rig: Rig, attempt_id: str) -> Observation:
    """Look until the daemon responds."""
    while True:
        try:
            return await rig.look(attempt_id)
        except EngineError:
            await asyncio.sleep(0.05)


# --- starting -------------------------------------------------------------------------------------------------------


def test_a_container_started_again_by_hand_runs_nothing(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", "echo once; exit 4")).code == 4
        with daemon.client() as client:
            assert client.post(f"/containers/{name_of(rig, 'a')}/start").status_code == 204
            code = client.post(f"/containers/{name_of(rig, 'a')}/wait").json()["StatusCode"]
        assert code == 125
        assert await read_all(rig.log("a")) == b"once\n"
        assert (await rig.look("a")).code == 4

    play(daemon, tmp_path, scenario)


def test_a_server_that_died_after_the_start_finds_its_task(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        await rig.engine.close()
        folder_of(tmp_path, "a").open_claim()
        os.truncate(folder_of(tmp_path, "a")["claim"], 0)  # it did not record the process
        await rig.open()
        assert (await rig.engine.start(rig.launch("a", FOREVER))).seen is ObservedState.RUNNING
        assert await read_all(rig.log("a")) == b"up\n"

    play(daemon, tmp_path, scenario)


def create_container(daemon: ContainerDaemon, rig: Rig, attempt_id: str) -> None:
    """Create a container of a task, as a server that was killed afterwards."""
    labels = rig.engine._names.make_labels(attempt_id, "job", "worker-0")  # type: ignore[attr-defined]
    body = {"Image": IMAGE, "Cmd": ["/bin/false"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
    with daemon.client() as client:
        made = client.post("/containers/create", params={"name": name_of(rig, attempt_id)}, json=body)
        assert made.status_code == 201, made.text


def test_a_container_that_was_only_created_is_started(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        create_container(daemon, rig, "a")
        assert (await rig.look("a")).seen is ObservedState.ABSENT
        assert (await rig.run("a", "exit 4")).code == 4

    play(daemon, tmp_path, scenario)


def test_an_image_without_a_shell_is_refused(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "exit 0", image=NO_SHELL_IMAGE)
        assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.NO_SHELL, False)
        await rig.engine.remove("a")
        assert (await rig.look("a")).cause == Cause.NO_SHELL

    play(daemon, tmp_path, scenario)


def test_two_installations_leave_each_others_tasks_alone(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        other = ContainerEngine(tmp_path / "other", ContainerOptions(socket=daemon.socket, installation_id="secondone"))
        await other.open(lambda _: None)
        try:
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            assert (await other.observe(["a"]))["a"].seen is ObservedState.ABSENT
            assert await other.list_attempts() == []
            assert (await other.start(rig.launch("a", FOREVER))).seen is ObservedState.RUNNING
            await sweep(other)
            assert (await rig.look("a")).seen is ObservedState.RUNNING
        finally:
            await other.close()

    play(daemon, tmp_path, scenario, installation_id="firstone")


def test_secrets_are_not_in_the_containers_config(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"hunter2", "a", 'echo "$TOKEN"; sleep 600', env={"TOKEN": "hunter2"})
        found = inspect(daemon, name_of(rig, "a"))
        assert "hunter2" not in json.dumps(found)
        assert found["HostConfig"]["RestartPolicy"]["Name"] in ("no", "")
        assert found["Config"]["Labels"]["holdfast.attempt"] == "a"
        await rig.engine.stop("a", 0)
        await rig.end_of("a")
        kept = [path for path in (tmp_path / "tasks" / "a").rglob("*") if path.is_file() and path.name != "stdout"]
        assert not [path for path in kept if b"hunter2" in path.read_bytes()]

    play(daemon, tmp_path, scenario)


# --- ends -----------------------------------------------------------------------------------------------------------


def test_a_held_task_uses_no_cpu(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", "exit 3", hold=True)).seen is ObservedState.HELD
        engine = rig.engine
        assert isinstance(engine, ContainerEngine)
        while all(" stopped" not in text for text in await states(engine)):
            await asyncio.sleep(0.05)
        before = (await engine.measure_tasks(["a"]))["a"].cpu
        await asyncio.sleep(0.5)
        assert (await engine.measure_tasks(["a"]))["a"].cpu - before < 0.1

    async def states(engine: ContainerEngine) -> list[str]:
        pids = [process.pid for process in await engine.list_processes("a")]
        return [Path(f"/proc/{pid}/status").read_text().replace("(stopped)", " stopped") for pid in pids]

    play(daemon, tmp_path, scenario)


def test_a_container_removed_by_hand_is_a_lost_task(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        with daemon.client() as client:
            client.delete(f"/containers/{name_of(rig, 'a')}", params={"force": "1"})
        seen = await rig.end_of("a")
        assert (seen.seen, seen.cause) == (ObservedState.LOST, Cause.LOST)
        await rig.reopen()
        assert (await rig.look("a")).seen is ObservedState.LOST
        assert (await rig.engine.start(rig.launch("a", FOREVER))).seen is ObservedState.LOST
        assert await read_all(rig.log("a")) == b"up\n"

    play(daemon, tmp_path, scenario)


def test_a_container_killed_by_hand_is_a_lost_task(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        with daemon.client() as client:
            client.post(f"/containers/{name_of(rig, 'a')}/kill", params={"signal": "KILL"})
        assert (await rig.end_of("a")).seen is ObservedState.LOST

    play(daemon, tmp_path, scenario)


def test_a_task_killed_for_its_memory_says_so(daemon: ContainerDaemon, tmp_path: Path) -> None:
    hungry = "tail /dev/zero"  # of busybox: it keeps the last line in memory

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", hungry, resources=Resources(cpu=1.0, memory=32 * MIB))
        assert (seen.seen, seen.code, seen.oom) == (ObservedState.EXITED, 137, True)
        await rig.engine.remove("a")
        assert (await rig.look("a")).oom
        fine = await rig.run("b", f"{hungry} || true", resources=Resources(cpu=1.0, memory=32 * MIB))
        assert (fine.code, fine.oom) == (0, False)

    play(daemon, tmp_path, scenario)


def test_a_paused_container_can_be_stopped(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        with daemon.client() as client:
            assert client.post(f"/containers/{name_of(rig, 'a')}/pause").status_code == 204
        await rig.engine.stop("a", 0)
        assert (await rig.end_of("a")).code == 137

    play(daemon, tmp_path, scenario)


@pytest.mark.parametrize(
    "script",
    ["rm -f /run/holdfast/report/claim", "echo 'end 0 1.0 0' >>/run/holdfast/report/claim",
     "mkfifo /run/holdfast/report/x; mv /run/holdfast/report/x /run/holdfast/report/claim",
     "ln -sf /etc/passwd /run/holdfast/report/claim"],
)  # fmt: skip
def test_a_task_that_forges_its_claim_deceives_only_itself(
    daemon: ContainerDaemon, tmp_path: Path, script: str
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"{script}; {FOREVER}")
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        await rig.reopen()
        assert (await rig.engine.start(rig.launch("a", FOREVER))).seen is ObservedState.RUNNING
        await rig.engine.stop("a", 0)
        assert (await rig.end_of("a")).seen is ObservedState.EXITED

    play(daemon, tmp_path, scenario)


@pytest.mark.parametrize(
    ("script", "code"),
    [("rm claim; mkdir claim; exit 125", 125), ("printf 'run 1 1\\nend 4 0.01 0\\n%17000s' x >claim; exit 3", 4)],
)
def test_a_task_cannot_forge_that_it_did_not_run(
    daemon: ContainerDaemon, tmp_path: Path, script: str, code: int
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"echo up; sleep 1; cd /run/holdfast/report; {script}")
        seen = await rig.end_of("a")
        assert (seen.seen, seen.code) == (ObservedState.EXITED, code), seen
        assert seen.elapsed is not None
        assert seen.elapsed >= 1

    play(daemon, tmp_path, scenario)


def test_what_belongs_to_the_server_is_not_in_the_container(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("a", "ls /run/holdfast; touch /run/holdfast/env || echo denied; touch ~/fine && echo fine")
        assert set((await read_all(rig.log("a"))).split()) == {
            *(b"env", b"lib", b"notes", b"report", b"runner", b"script", b"stderr", b"stdout"),
            *(b"task", b"denied", b"fine"),
        }

    play(daemon, tmp_path, scenario)


def test_variables_and_folders_are_the_tasks_own(daemon: ContainerDaemon, tmp_path: Path) -> None:
    env = {"QUOTED": 'a\'b "c" $HOME\n$(date)', "claim": "mine", "code": "mine", "EMPTY": ""}

    async def scenario(rig: Rig) -> None:
        script = 'printf "%s|%s|%s|%s|" "$QUOTED" "$claim" "$code" "$EMPTY"; pwd; env | grep -c _holdfast'
        await rig.run("a", script, env=env, workdir="/deep/new folder", shell_options=())
        assert (await read_all(rig.log("a"))).decode() == f"{env['QUOTED']}|mine|mine||/deep/new folder\n0\n"
        await rig.run("b", "pwd")
        assert await read_all(rig.log("b")) == b"/home/jovyan\n"
        assert (await rig.run("c", "exit 0", workdir="/etc/passwd/sub")).code == 1

    play(daemon, tmp_path, scenario)


def test_signals_to_all_of_a_tasks_processes_leave_its_exit_code(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "trap 'exit 7' TERM; kill 0; sleep 600 & wait")
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 7)

    play(daemon, tmp_path, scenario)


def test_bash_is_preferred_and_gets_its_options(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        script = 'echo "$SHELL" ${BASH_VERSION:+bash}; false | true; echo not reached'
        seen = await rig.run("a", script, image=BASH_IMAGE)
        assert (seen.code, await read_all(rig.log("a"))) == (1, b"/bin/bash bash\n")
        assert (await rig.run("b", "kill -9 $$", image=BASH_IMAGE)).code == 137
        assert await read_all(rig.log("b", LogStream.STDERR)) == b""
        held = await rig.run("c", "exit 3", image=BASH_IMAGE, hold=True)
        assert (held.seen, held.code) == (ObservedState.HELD, 3)
        assert (await rig.stop_held("c")).code == 3
        await rig.start_and_wait_for(b"up", "d", FOREVER, image=BASH_IMAGE)
        await rig.engine.stop("d", TIMEOUT)
        assert (await rig.end_of("d")).code == 143

    play(daemon, tmp_path, scenario)


# --- mounts ---------------------------------------------------------------------------------------------------------


def test_folders_are_mounted(daemon: ContainerDaemon, tmp_path: Path) -> None:
    data, shared = tmp_path / "data", tmp_path / "shared"
    for folder in (data, shared):
        folder.mkdir()
        (folder / "file").write_text("from the machine\n")
    mounts = (
        Mount(volume=HostFolder(str(data)), target="/data", read_only=True),
        Mount(volume=HostFolder(str(shared)), target="/shared", read_only=False),
    )

    async def scenario(rig: Rig) -> None:
        script = "cat /data/file; touch /data/new || echo denied; echo changed >/shared/file"
        assert (await rig.run("a", script, mounts=mounts)).code == 0
        assert await read_all(rig.log("a")) == b"from the machine\ndenied\n"
        assert (shared / "file").read_text() == "changed\n"
        mounts_of_the_machine = Path("/proc/self/mountinfo").read_text().splitlines()
        assert not [line for line in mounts_of_the_machine if f"{tmp_path.name}/" in line and "holdfast-mounts" in line]

    play(daemon, tmp_path / "home", scenario)
    assert (data / "file").exists()


@pytest.mark.parametrize("place", ["home", "home/tasks", "", "link", "daemon"])
def test_mounts_that_lead_to_the_server_are_refused(daemon: ContainerDaemon, tmp_path: Path, place: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    source = daemon.folder if place == "daemon" else tmp_path / place

    async def scenario(rig: Rig) -> None:
        mount = Mount(volume=HostFolder(str(source)), target="/data", read_only=True)
        seen = await rig.engine.start(rig.launch("a", "exit 0", mounts=(mount,)))
        assert (seen.seen, seen.cause) == (ObservedState.REFUSED, Cause.NOT_ALLOWED)
        assert place == "link" or str(tmp_path) not in seen.message
        assert (await rig.look("a")).seen is ObservedState.ABSENT

    play(daemon, tmp_path / "home", scenario)


@pytest.mark.parametrize(
    ("place", "state"),
    [("shared/team", ObservedState.EXITED), ("", ObservedState.REFUSED), ("link", ObservedState.REFUSED)],
)
def test_only_shared_folders_are_mounted_from_the_state_folder(
    daemon: ContainerDaemon, tmp_path: Path, place: str, state: ObservedState
) -> None:
    home = tmp_path / "home"
    (home / "shared/team").mkdir(parents=True)
    (home / "link").symlink_to(home / "tasks")

    async def scenario(rig: Rig) -> None:
        volume = SharedFolder(folder=str(home / place), path=place)
        mounts = (Mount(volume=volume, target="/data", read_only=True),)
        assert (await rig.run("a", "ls /data", mounts=mounts)).seen is state

    play(daemon, home, scenario)


# --- inside ---------------------------------------------------------------------------------------------------------


def test_sessions_run_inside_the_container(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"cd /tmp; {FOREVER}", env={"COLOUR": "green"})
        said = await inside(rig.engine, "a", 'echo "$COLOUR $HOME $HOSTNAME"; id -u; cat; exit 3', b"given")
        assert (said.code, said.out) == (3, "green /home/jovyan worker-0\n0\ngiven")
        assert "_holdfast" not in (await inside(rig.engine, "a", "env")).out
        processes = await let_in(rig.engine).list_processes("a")
        assert any("sleep" in process.command for process in processes)
        files = await let_in(rig.engine).open_session("a", ExecCommand(kind=ExecKind.SFTP))
        await files.write(b"\0\0\0\5\1\0\0\0\3")
        assert (await files.read())[4:9] == b"\2\0\0\0\3"  # version 3
        files.close()
        session = await let_in(rig.engine).open_session("a", ExecCommand(terminal=Terminal()))
        screen = Screen(session)
        await screen.type("echo a$((1 + 1))b; exit\n")
        await screen.shows("a2b")
        session.close()

    play(daemon, tmp_path, scenario)


def test_a_held_task_can_be_entered(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("a", "echo kept >~/file; exit 3", hold=True)
        assert (await inside(rig.engine, "a", "cat ~/file")).out == "kept\n"

    play(daemon, tmp_path, scenario)


def test_the_files_of_an_ended_task_can_be_entered(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        work = rig.launch("a", "echo kept >~/file; exit 3", env={"COLOUR": "green"})
        assert (await rig.run("a", work.script, env=work.env)).code == 3
        for _ in range(2):
            await let_in(rig.engine).revive_task(work)
        said = await inside(rig.engine, "a", 'cat ~/file; echo "$COLOUR"')
        assert said.out == "kept\ngreen\n"
        assert (await rig.look("a")).code == 3
        await rig.engine.stop("a", 0)
        assert "State" not in inspect(daemon, f"{name_of(rig, 'a')}-revived")

    play(daemon, tmp_path, scenario)


def test_a_task_that_fills_its_home_is_stopped(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "dd if=/dev/zero of=$HOME/big bs=1M count=20; sleep 600", scratch=5 * MIB)
        assert (seen.seen, seen.cause) == (ObservedState.EXITED, Cause.SCRATCH_FULL)

    play(daemon, tmp_path, scenario, scratch_interval=0.1, scratch_grace=0.0)


# --- the daemon goes away -------------------------------------------------------------------------------------------


@pytest.fixture
def own_dockerd() -> Iterator[Dockerd]:
    with run_daemon(Dockerd) as daemon:
        assert isinstance(daemon, Dockerd)
        yield daemon


def test_tasks_survive_a_killed_daemon(own_dockerd: Dockerd, tmp_path: Path) -> None:
    """With live-restore. What is written meanwhile is kept, and nothing runs twice."""

    async def scenario(rig: Rig) -> None:
        healths: list[int] = []
        await rig.engine.close()
        await rig.engine.open(rig._hear, lambda: healths.append(len(rig.engine.get_health().conditions)))
        await rig.start_and_wait_for(b"up", "stays", FOREVER)
        wait = "until [ -e ~/go ]; do sleep 0.1; done"
        await rig.start_and_wait_for(b"up", "ends", f"echo up; {wait}; yes | head -c 5000000; exit 6")
        own_dockerd.kill()
        while healths[-1:] != [1]:
            await asyncio.sleep(0.05)
        with pytest.raises(EngineError):
            await rig.engine.start(rig.launch("new", "echo new"))
        with pytest.raises(EngineError):
            await rig.look("never")
        assert (await rig.look("stays")).seen is ObservedState.RUNNING
        assert (await inside(rig.engine, "stays", "echo here")).out == "here\n"
        (tmp_path / "tasks" / "ends" / "place.home.jovyan" / "go").touch()
        ended = await rig.end_of("ends")
        assert (ended.seen, ended.code) == (ObservedState.EXITED, 6)
        assert await rig.log("ends").get_size() == 5000003
        await asyncio.to_thread(own_dockerd.start)
        while healths[-1:] != [0]:
            await asyncio.sleep(0.05)
        assert (await rig.run("new", "echo new")).code == 0
        assert (await rig.look("stays")).seen is ObservedState.RUNNING
        assert await read_all(rig.log("stays")) == b"up\n"
        assert await read_all(rig.log("new", LogStream.STDOUT)) == b"new\n"

    play(own_dockerd, tmp_path, scenario)


def test_a_task_is_stopped_without_the_daemon(own_dockerd: Dockerd, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"trap '' TERM; {FOREVER}")
        own_dockerd.kill()
        try:
            await rig.reopen()
            await rig.engine.stop("a", 0.1)
            assert (await rig.end_of("a")).code == 137
        finally:
            await asyncio.to_thread(own_dockerd.start)

    play(own_dockerd, tmp_path, scenario)


@pytest.mark.release  # the new daemon takes ten seconds to end them
def test_a_daemon_without_live_restore_loses_its_tasks(own_dockerd: Dockerd, tmp_path: Path) -> None:
    own_dockerd.live_restore = False
    own_dockerd.stop()
    own_dockerd.start()

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        own_dockerd.kill()
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        await asyncio.to_thread(own_dockerd.start)
        seen = await rig.end_of("a")
        assert (seen.seen, seen.cause) == (ObservedState.LOST, Cause.LOST)
        assert (await rig.engine.start(rig.launch("a", FOREVER))).seen is ObservedState.LOST
        assert await read_all(rig.log("a")) == b"up\n"

    play(own_dockerd, tmp_path, scenario)


def test_an_end_that_cannot_be_recorded_is_reported(
    daemon: ContainerDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scenario(rig: Rig) -> None:
        monkeypatch.setattr(ContainerFolder, "record_end", fail)
        ended = await rig.run("a", "exit 4")
        assert ended.code == 4
        monkeypatch.undo()
        await rig.reopen()
        assert (await rig.look("a")).code == 4
        assert folder_of(tmp_path, "a").read_claim().code == 4

    play(daemon, tmp_path, scenario)


def test_a_container_whose_folder_was_deleted_is_found_and_removed(daemon: ContainerDaemon, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        await rig.engine.close()
        shutil.rmtree(tmp_path / "tasks" / "a")
        await rig.open()
        assert await rig.engine.list_attempts() == ["a"]
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        assert await sweep(rig.engine) == ["a"]
        assert await rig.engine.list_attempts() == []

    play(daemon, tmp_path, scenario)
