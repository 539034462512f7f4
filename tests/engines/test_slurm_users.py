"""Tasks in Slurm that run as the Unix users of their owners, with a server that runs as root."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.engines.base import ExecCommand
from holdfast.engines.slurm import SlurmEngine, SlurmOptions
from tests.contracts.engine_rig import FOREVER, TIMEOUT, Rig, collect, read_all, sweep
from tests.engines.archives import tar
from tests.engines.sessions import inside
from tests.engines.user_images import busybox_entries
from tests.slurm_cluster import SlurmCluster, run_cluster, wait_until
from tests.unix_users import create_users, get_uid, remove_folder

pytestmark = pytest.mark.release

SECRET = "a-secret-of-the-first-user"
GANG = ("j.0.a-0.0", "j.0.b-0.0")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def users() -> Iterator[list[str]]:
    with create_users(2) as names:
        yield names


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where all users can enter."""
    path = Path(tempfile.mkdtemp(prefix="holdfast-users-"))
    path.chmod(0o755)
    (path / "node").mkdir()
    (path / "node").chmod(0o1777)
    yield path
    remove_folder(path)


@pytest.fixture
def play(cluster: SlurmCluster, folder: Path) -> Callable[..., None]:
    options = SlurmOptions(
        conf=str(cluster.conf), run_as="user", busy_interval=0.1, calm_interval=0.5, min_interval=0.05,
        log_interval=0.05, heartbeat_interval=0.5, report_timeout=0.5, probe_delay=3600,
        node_folder=str(folder / "node"),
    )  # fmt: skip

    def run(scenario: Callable[[Rig, SlurmEngine], Awaitable[None]], **more: Any) -> None:
        async def go() -> None:
            rig = Rig(lambda: SlurmEngine(folder / "shared", replace(options, **more)))
            await rig.open()
            try:
                assert isinstance(rig.engine, SlurmEngine)
                await asyncio.wait_for(scenario(rig, rig.engine), TIMEOUT)
            finally:
                await sweep(rig.engine)
                await rig.close()

        asyncio.run(go())

    return run


def run_as(user: str, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["setpriv", f"--reuid={get_uid(user)}", "--clear-groups", "sh", "-c", command], capture_output=True, text=True
    )


def test_a_task_runs_as_its_user(play: Any, users: list[str]) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        for number, user in enumerate(users):
            script = "id -un; echo $USER; pwd; env | grep -c SUDO_; exit 3"
            await engine.start(rig.launch(f"t{number}", script, user=user, shell_options=()))
        for number, user in enumerate(users):
            ended = await rig.end_of(f"t{number}")
            assert (ended.seen, ended.code) == (ObservedState.EXITED, 3)
            home = f"{engine._task_folders.home}/tasks/t{number}/scratch"
            assert (await read_all(rig.log(f"t{number}"))).decode() == f"{user}\n{user}\n{home}\n0\n"
        await rig.reopen()
        assert (await rig.look("t1")).code == 3

    play(scenario)


def test_a_gang_runs_as_its_user_and_a_member_is_stopped_alone(play: Any, users: list[str]) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        env = {"OTHER": "@holdfast:1:address@"}
        for attempt_id in GANG:
            script = f"echo $OTHER; {FOREVER}"
            await engine.start(rig.launch(attempt_id, script, user=users[0], gang=GANG, env=env))
        for attempt_id in GANG:
            await rig.wait_until_running(attempt_id)
        await rig.log(GANG[0]).wait_for_growth(0, TIMEOUT)
        assert b"@" not in await rig.log(GANG[0]).read(0, 100)
        await engine.stop(GANG[1], 0)
        assert (await rig.end_of(GANG[1])).code == 137
        assert (await rig.look(GANG[0])).seen is ObservedState.RUNNING

    play(scenario)


def test_sessions_holds_and_stops_work(play: Any, users: list[str]) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await engine.start(rig.launch("held", "echo up; exit 7", user=users[0], hold=True))
        held = await rig.end_of("held")
        assert (held.seen, held.code) == (ObservedState.HELD, 7)
        done = await inside(engine, "held", "id -un; cat; exit 5", b"typed")
        assert (done.out, done.code) == (f"{users[0]}\ntyped", 5)
        assert len(await engine.list_processes("held"))
        session = await engine.open_session("held", ExecCommand(argv=("sleep", "600")))
        session.close()
        assert await asyncio.wait_for(session.wait(), TIMEOUT) != 0
        assert (await rig.stop_held("held")).code == 7
        await engine.revive_task(rig.launch("held", "", user=users[0]))
        assert (await inside(engine, "held", "id -un")).out == f"{users[0]}\n"

    play(scenario)


def test_ports_are_reserved(play: Any, users: list[str]) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        ports: set[int] = set()
        for number, user in enumerate(users):
            await rig.start_and_wait_for(b"up", f"p{number}", FOREVER, user=user, port_counts={"web": 2})
            ports |= set((await rig.look(f"p{number}")).ports["web"])
        assert len(ports) == 4

    play(scenario)


def test_no_other_user_sees_logs_secrets_or_files(play: Any, users: list[str]) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        script = f"umask 000; echo {SECRET} >mine; echo {SECRET}; {FOREVER}"
        env = {"SECRET": SECRET}
        await rig.start_and_wait_for(b"up", "a", script, user=users[0], env=env)
        home = engine._task_folders.home
        assert SECRET in run_as(users[0], f"cat {home}/tasks/a/env").stdout
        seen = run_as(
            users[1],
            f"ls -R {home}; cd {home}/tasks/a; ls; cat env script entry task stdout stderr slurm.out owner gang claim; "
            "cat report/* scratch/mine notes/* inner/* variables; echo x >notes/held; echo x >report/heartbeat; "
            "rm -rf scratch report notes stdout; touch new; ls ../../users ../../logs ../../trash ../../ports; "
            "echo done",
        )
        assert seen.stdout == "done\n"
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        before = sorted(path.name for path in (home / "tasks" / "a").iterdir())
        mine = run_as(users[0], f"cd {home}/tasks/a; rm -f stdout claim owner; mv report other; touch new; echo done")
        assert mine.stdout == "done\n"
        assert sorted(path.name for path in (home / "tasks" / "a").iterdir()) == before
        assert (await rig.look("a")).seen is ObservedState.RUNNING

    play(scenario)


def test_tasks_of_users_are_isolated_and_run_in_images(play: Any, users: list[str], folder: Path) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        (folder / "image.tar").write_bytes(tar(busybox_entries()))
        await engine.import_image("box", folder / "image.tar")
        home = engine._task_folders.home
        script = f"touch /usr/new || echo no; echo x >{home}/tasks/host/variables || echo no; echo up; sleep 600"
        await rig.start_and_wait_for(b"up", "host", script, user=users[0])
        assert [line for line in (await read_all(rig.log("host"))).decode().split() if line in ("no", "up")] == [
            "no",
            "no",
            "up",
        ]
        await rig.start_and_wait_for(b"up", "boxed", "touch /new; echo up; sleep 600", user=users[0], image="box")
        for attempt_id, script, out in (
            ("host", f"ls {home}/tasks; touch /usr/new || id -un", f"host\n{users[0]}\n"),
            ("boxed", f"ls {home}/tasks; ls /new; id -u", "boxed\n/new\n0\n"),
        ):
            assert not (await rig.look(attempt_id)).warning
            assert (await inside(engine, attempt_id, script)).out == out
        for user in users:
            seen = run_as(
                user,
                f"cd {home}; ls changes nodes images images/roots; touch programs/x programs/*/x changes/host; "
                "touch nodes/n1; rm -rf programs; echo done",
            )
            assert seen.stdout == "done\n"
        image = engine._images.find_image("box")
        assert image is not None
        assert run_as(users[1], f"touch {image.rootfs}/x {image.rootfs}/bin/x").returncode != 0
        assert engine.get_health().notes

    play(scenario, isolation="bubblewrap")


def test_links_of_a_hostile_user_lead_nowhere(play: Any, users: list[str], folder: Path) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        victim = folder / "victim"
        victim.mkdir(mode=0o700)
        (victim / "file").write_text("1 2 3 4 5 6 7\n")
        (victim / "x.15001").write_text("kept")
        (victim / "file").chmod(0o600)
        report = f"{engine._task_folders.home}/tasks/bad/report"
        script = f"""
            mkdir artifacts; ln -s {victim} artifacts/folder; ln -s {victim}/file artifacts/file
            mkdir -m 000 locked; ln -s {victim} link; mkdir -p deep/er; ln -s {victim} deep/er/link
            cd {report}
            sed 's| n[0-9] | ../../../victim/x |' allocation >a; mv -f a allocation
            echo 'web 15001' >ports
            for name in usage heartbeat oom step; do rm -f $name; ln -s {victim}/file $name; done
            rm -rf ../notes/*; ln -s {victim}/file ../notes/held; mkfifo address
            echo up; exit 4
        """
        await engine.start(rig.launch("bad", script, user=users[0], hold=False, shell_options=()))
        await rig.end_of("bad")
        assert not collect(engine, "bad").files
        await engine.remove("bad")
        trash = engine._task_folders.home / "trash"
        wait_until(lambda: not list(trash.iterdir()), folder)
        assert sorted(path.name for path in victim.iterdir()) == ["file", "x.15001"]
        for path in (victim, *victim.iterdir()):
            assert path.stat().st_uid == 0
        assert (victim / "file").stat().st_mode & 0o777 == 0o600
        assert victim.stat().st_mode & 0o777 == 0o700

    play(scenario)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("root", "system user"),
        ("daemon", "system user"),
        ("nobody", "system user"),
        ("no-such-user-here", "has no Unix user"),
        ("Ada Lovelace", "not a Unix user name"),
        ("-u", "not a Unix user name"),
        ("ada@example.com", "not a Unix user name"),
    ],
)
def test_users_without_an_ordinary_unix_user_are_refused(play: Any, name: str, words: str) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        seen = await engine.start(rig.launch("a", "exit 0", user=name))
        assert (seen.seen, seen.cause) == (ObservedState.REFUSED, Cause.NOT_ALLOWED)
        assert words in seen.message
        assert list(await engine.list_attempts()) == []

    play(scenario)


def test_a_job_of_another_user_with_the_same_name_is_not_the_task(
    play: Any, users: list[str], cluster: SlurmCluster
) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await engine.start(rig.launch("mine", "exit 0", user=users[1]))  # so that jobs of both are looked up
        name = engine._names.make_name("a")
        conf = f"SLURM_CONF={cluster.conf}"
        fake = f"{conf} sbatch --job-name={name} --comment=a --chdir=/ --output=/dev/null --wrap='sleep 600'"
        assert run_as(users[1], fake).returncode == 0
        try:
            await engine.start(rig.launch("a", "id -un; exit 5", user=users[0]))
            assert (await rig.end_of("a")).code == 5
            assert (await read_all(rig.log("a"))).decode() == f"{users[0]}\n"
        finally:
            cluster.query("scancel", f"--user={users[1]}")

    play(scenario)
