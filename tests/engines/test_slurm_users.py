"""Tasks in Slurm that run as the Unix users of their owners, with a server that runs as root."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Resources
from holdfast.engines.base import ExecCommand, ExecRefused
from holdfast.engines.embedded.tree_removal import remove_tree
from holdfast.engines.slurm import SlurmEngine, SlurmOptions
from holdfast.engines.slurm.probe.probe_result import ProbeResult, ProbeState, build_conditions, parse_facts
from tests.contracts.engine_rig import FOREVER, TIMEOUT, Rig, collect, read_all, sweep
from tests.engines.archives import tar
from tests.engines.sessions import inside
from tests.engines.user_images import busybox_entries
from tests.slurm_cluster import NODES, SlurmCluster, run_cluster, wait_until
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
                await asyncio.wait_for(sweep(rig.engine), TIMEOUT)
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
        ("root", "Use an account with the name of an ordinary user"),
        ("daemon", "system user"),
        ("nobody", "system user"),
        ("no-such-user-here", "Ask an admin to create it there and on all nodes"),
        ("Ada Lovelace", "Use an account whose name is that of a Unix user"),
        ("-u", "not a Unix user name"),
        ("../x", "not a Unix user name"),
        ("#0", "not a Unix user name"),
        ("0", "not a Unix user name"),
        ("ada\n", "not a Unix user name"),
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


def submit_fake(cluster: SlurmCluster, user: str, name: str, attempt_id: str, *options: str) -> None:
    """Submit a job of that user with the name and the comment of a task."""
    given = shlex.join((f"--job-name={name}", f"--comment={attempt_id}", *options))
    fake = f"SLURM_CONF={cluster.conf} sbatch --chdir=/ --output=/dev/null {given} --wrap='sleep 600'"
    done = run_as(user, fake)
    assert done.returncode == 0, done.stderr


def test_a_job_of_another_user_with_the_same_name_is_not_the_task(
    play: Any, users: list[str], cluster: SlurmCluster
) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await engine.start(rig.launch("mine", "exit 0", user=users[1]))  # so that jobs of both are looked up
        submit_fake(cluster, users[1], engine._names.make_name("a"), "a")
        try:
            await engine.start(rig.launch("a", "id -un; exit 5", user=users[0]))
            assert (await rig.end_of("a")).code == 5
            assert (await read_all(rig.log("a"))).decode() == f"{users[0]}\n"
        finally:
            cluster.query("scancel", f"--user={users[1]}")

    play(scenario)


def test_a_job_of_another_user_says_nothing_about_a_task_without_files(
    play: Any, users: list[str], cluster: SlurmCluster
) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await rig.start_and_wait_for(b"up", "mine", FOREVER, user=users[1])
        submit_fake(cluster, users[1], engine._names.make_name("next"), "next")
        try:
            wait_until(
                lambda: cluster.query("squeue", "-h", "-t", "R", "--name", engine._names.make_name("next")) != "",
                engine._task_folders.home,
            )
            for _ in range(2):
                assert (await rig.look("next")).seen is ObservedState.ABSENT
                assert list(await engine.list_attempts()) == ["mine"]
                await rig.reopen()
                assert isinstance(rig.engine, SlurmEngine)
                engine = rig.engine
            remove_tree(str(engine._task_folders.home / "tasks" / "mine"))  # by hand
            await rig.reopen()
            assert (await rig.look("mine")).seen is ObservedState.RUNNING
            assert list(await rig.engine.list_attempts()) == ["mine"]
            await rig.engine.stop("mine", 0)
            while (await rig.look("mine")).seen.alive:
                await asyncio.sleep(0.1)
        finally:
            cluster.query("scancel", f"--user={users[1]}")

    play(scenario)


def test_a_job_of_another_user_does_not_prevent_a_session(play: Any, users: list[str], cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        for number, user in enumerate(users):
            await rig.run(f"t{number}", "echo kept >file", user=user)
        (engine._task_folders.home / "tasks" / "t0" / "revived").mkdir()  # of a server that was killed
        submit_fake(cluster, users[1], f"{engine._names.make_name('t0')}-revived", "t0")
        try:
            await engine.revive_task(rig.launch("t0", "", user=users[0]))
            assert (await inside(engine, "t0", "id -un; cat file")).out == f"{users[0]}\nkept\n"
        finally:
            cluster.query("scancel", f"--user={users[1]}")

    play(scenario)


def test_who_has_the_resources_is_not_what_a_name_says(play: Any, users: list[str], cluster: SlurmCluster) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await rig.start_and_wait_for(b"up", "own", FOREVER, user=users[0])
        for attempt_id in ("own", "other"):
            submit_fake(cluster, users[1], engine._names.make_name(attempt_id), attempt_id, "--exclusive", "--mem=9")
        submit_fake(cluster, users[1], "any", "", "--cpus-per-task=7", "--mem=9")
        seen = await rig.engine.start(
            rig.launch("waits", "exit 0", user=users[0], resources=Resources(cpu=2.0, memory=MIB))
        )
        try:
            assert seen.seen is ObservedState.QUEUED, seen
            expected = [("", users[1]), ("own", "")]
            found: list[tuple[str, str]] = []
            while found != expected:  # jobs of earlier tests may still end
                wait = await engine.explain_queue_wait(["waits"])
                found = sorted((each.attempt_id, each.user) for each in wait.holders) if wait else []
                assert ("other", "") not in found
                await asyncio.sleep(0.2)
        finally:
            cluster.query("scancel", f"--user={users[1]}")

    play(scenario)


def test_a_hostile_report_is_only_about_its_own_task(play: Any, users: list[str]) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        report = f"{engine._task_folders.home}/tasks/bad/report"
        digits = "9" * 400
        script = f"""
            cd {report}
            printf 'web \\302\\262\\nx {digits}\\n' >ports
            echo inf >heartbeat; rm -f usage; echo "1 {digits} 1 1 - -" >usage; mkdir usage.draft
            touch -d @99999999999 allocation || true
            n=0; while [ $n -lt 1500 ]; do n=$((n + 1)); : >$n; done
            echo "end 0 999999999999.0 -" >>claim
            echo up; sleep 600
        """
        await engine.start(rig.launch("bad", script, user=users[0], shell_options=()))
        ended = await rig.run("good", "sleep 1; exit 6", user=users[1])
        assert ended.code == 6
        await engine.measure_tasks(["bad", "good"])
        await engine.stop("bad", 0)
        await rig.end_of("bad")

    play(scenario)


def test_a_hard_link_to_a_file_of_another_user_is_not_collected(play: Any, users: list[str], folder: Path) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        await rig.run("a", "mkdir artifacts; echo own >artifacts/own", user=users[0])
        (folder / "shared" / "secret").write_text(SECRET)
        os.link(folder / "shared" / "secret", folder / "shared" / "tasks" / "a" / "scratch" / "artifacts" / "theirs")
        assert collect(engine, "a").files == {b"own": b"own\n"}

    play(scenario)


def test_tasks_of_a_deleted_user_can_be_stopped_but_not_entered(play: Any) -> None:
    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        with create_users(1) as (name,):
            await rig.start_and_wait_for(b"up", "a", FOREVER, user=name)
            await rig.run("ended", "exit 0", user=name)
        with pytest.raises(ExecRefused, match="no Unix user"):
            await engine.open_session("a", ExecCommand(argv=("id",)))
        with pytest.raises(ExecRefused, match="no Unix user"):
            await engine.revive_task(rig.launch("ended", "", user=name))
        refused = await engine.start(rig.launch("new", "exit 0", user=name))
        assert refused.seen is ObservedState.REFUSED
        await engine.complete_checks()
        assert any(name in each.message for each in engine.get_health().conditions)
        await engine.stop("a", 0)
        assert (await rig.end_of("a")).code == 137
        await engine.remove("a")

    play(scenario)


def test_a_user_that_a_node_does_not_know_is_reported() -> None:
    users = {"ada": 1001, "bob": 1002, "eve": 1003}
    facts = parse_facts("node n1\nuser ada 1001\nuser bob \nuser eve 1009\nend 0\n")
    assert facts is not None
    result = ProbeResult(partition="main", state=ProbeState.PASSED, facts=facts)
    unknown, different = (each.message for each in build_conditions(result, -1, users))
    assert "bob" in unknown
    assert "eve" in different
    assert not build_conditions(result, -1)


def test_what_another_user_puts_in_the_place_of_a_port_is_not_opened(play: Any, users: list[str]) -> None:
    first, free = 25000, (25000, 25004)

    async def scenario(rig: Rig, engine: SlurmEngine) -> None:
        taken = [port for port in range(first, first + 8) if port not in free]
        paths = [f"{engine._task_folders.home}/ports/{node}.{port}" for node in NODES for port in taken]
        made = run_as(users[1], f"mkfifo -m 666 {shlex.join(paths)}")  # a shell that opens one waits forever
        assert made.returncode == 0, made.stderr
        for number in range(2):  # the ports of the first are released
            await engine.start(rig.launch(f"p{number}", FOREVER, user=users[0], port_counts={"web": 2}))
            await rig.wait_until_running(f"p{number}")
            while not (ports := (await rig.look(f"p{number}")).ports):
                await asyncio.sleep(0.1)
            assert sorted(ports["web"]) == list(free)
            await engine.stop(f"p{number}", 0)
            await rig.end_of(f"p{number}")

    play(scenario, port_start=first, port_end=first + 8)
