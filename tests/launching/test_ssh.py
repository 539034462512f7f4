"""The runtime plugin `ssh`: keys, and real logins where OpenSSH is installed."""

from __future__ import annotations

import asyncio
import base64
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import JobSnapshot
from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Isolation, LaunchSpec, LogStream
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.launching import needs_job_key, needs_user_keys
from holdfast.launching.keys import MAX_KEYS, filter_public_keys, make_job_key_pair
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import need, play
from tests.free_ports import reserve_ports

from .scene import Ran, launch_of, placed, run, v2_job, with_plugins

SEED = bytes(range(32))
KEY = make_job_key_pair(bytes(32)).public.rpartition(" ")[0]
HERE = {"node-a": "127.0.0.1", "node-b": "127.0.0.1"}

needs_openssh = pytest.mark.skipif(
    not (Path("/usr/sbin/sshd").exists() and shutil.which("ssh") and shutil.which("ssh-keygen")),
    reason="OpenSSH (openssh-server, openssh-client) is not installed",
)


def ssh(**parameters: Any) -> dict[str, Any]:
    return {"plugin": "ssh", "parameters": parameters}


# -- keys


def test_the_pair_of_a_job_is_always_the_same_and_no_other_jobs() -> None:
    assert make_job_key_pair(SEED).public == make_job_key_pair(SEED).public
    assert make_job_key_pair(SEED).public != make_job_key_pair(bytes(32)).public
    assert make_job_key_pair(SEED).public.endswith(" pai-job-ssh")


@needs_openssh
def test_ssh_reads_the_pair_of_a_job(tmp_path: Path) -> None:
    pair = make_job_key_pair(SEED)
    file = tmp_path / "id"
    file.write_text(pair.private)
    file.chmod(0o600)
    done = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == pair.public.split()[:2]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (KEY, [KEY]),
        (f"  {KEY}\tme@here  \r\n", [f"{KEY} me@here"]),
        (f"{KEY} a\n{KEY} b", [f"{KEY} a", f"{KEY} b"]),
        (f"{KEY} a\n{KEY} a", [f"{KEY} a"]),
        (f'command="x" {KEY}', []),
        (f"{KEY} a\ncommand={KEY}", [f"{KEY} a"]),
        (f"{KEY} evil\x1b[2J", [KEY]),
        ("ssh-ed25519 AAAA", []),
        ("ssh-rsa " + KEY.split()[1], []),
        ("ssh-dss " + base64.b64encode(b"\0\0\0\7ssh-dss").decode(), []),
        ("ssh-ed25519 not-base64!", []),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", []),
        ("", []),
        ("# comment", []),
    ],
)
def test_of_what_people_write_only_keys_are_taken(written: str, kept: list[str]) -> None:
    assert filter_public_keys([written]) == kept


def test_nobody_has_endlessly_many_keys() -> None:
    assert len(filter_public_keys([f"{KEY} {number}" for number in range(1000)])) == MAX_KEYS


def test_keys_are_asked_for_only_where_the_job_wants_them() -> None:
    plain, both = v2_job(["true"]), with_plugins(["true"], ssh(jobssh=True, userssh={"type": "custom", "value": ""}))
    scattered = with_plugins(["true"], ssh(jobssh=True), extras={"gangAllocation": False})
    assert [needs_user_keys(job) for job in (plain, both, scattered)] == [False, True, False]
    assert [needs_job_key(job) for job in (plain, both, scattered)] == [False, True, False]


# -- what the plugin does


def test_without_any_key_nothing_happens() -> None:
    job = with_plugins(["true"], ssh(jobssh=False, userssh={"type": "custom", "value": "# none\n"}))
    assert "__step" not in launch_of(job).entry


def test_keys_that_are_none_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    job = with_plugins(["true"], ssh(userssh={"value": f"nonsense\n# a note\n\nssh-rsa AAAA me\n{KEY}\n"}))
    assert "2 keys of userssh are not public keys and are ignored." in launch_of(job, isolated=True).entry
    ran = run(tmp_path, with_plugins(["echo ran"], ssh(userssh={"value": "it's nonsense"})))
    assert (ran.code, ran.out) == (0, "ran\n")
    assert "[WARN] 1 key of userssh is not a public key and is ignored." in ran.err


def test_tasks_placed_one_by_one_do_not_reach_each_other() -> None:
    job = with_plugins(["true"], ssh(jobssh=True, sshbarrier=True), extras={"gangAllocation": False})
    assert "PRIVATE KEY" not in launch_of(job, job_seed=SEED).entry


def test_hosts_are_known_in_both_spellings() -> None:
    role = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0}, "commands": ["true"]}
    job = with_plugins(["true"], ssh(jobssh=True), taskRoles={"worker": role, "Ps_1": role})
    entry = launch_of(job, job_seed=SEED).entry
    assert "Host worker-0\n    HostName 10.0.0.11\n    Port 20000\n    User root\n" in entry
    assert "Host ps1-0 Ps_1-0\n    HostName 10.0.0.12\n    Port 20002\n    User root\n" in entry


def test_without_a_sandbox_no_key_is_laid_down_and_nobody_listens(tmp_path: Path) -> None:
    job = with_plugins(["echo run"], ssh(jobssh=True, userssh={"type": "custom", "value": KEY}))
    launch = launch_of(job, isolated=False, job_seed=SEED)
    assert "PRIVATE KEY" not in launch.entry
    ran = run(tmp_path, launch, EmbeddedOptions(isolation="off"))
    assert (ran.code, ran.out) == (0, "run\n")
    assert "jobs are not isolated on this machine" in ran.err


# -- real logins


def on_free_ports(snapshot: JobSnapshot) -> JobSnapshot:
    numbers = iter(reserve_ports(2 * len(snapshot.tasks)))
    tasks = (replace(task, ports={label: (next(numbers),) for label in task.ports}) for task in snapshot.tasks)
    return replace(snapshot, tasks=tuple(tasks))


def run_together(home: Path, launches: Sequence[LaunchSpec]) -> list[Ran]:
    found: list[Ran] = []

    async def scenario(rig: Rig) -> None:
        for launch in launches:
            await rig.engine.start(launch)
        for launch in launches:
            end = await rig.end_of(launch.attempt_id)
            streams = [
                await read_all(rig.log(launch.attempt_id, stream)) for stream in (LogStream.STDOUT, LogStream.STDERR)
            ]
            found.append(Ran(end.code, *streams))

    play(home, scenario)
    return found


@needs_openssh
def test_tasks_of_a_job_reach_each_other_by_name(tmp_path: Path) -> None:
    need(Isolation.FULL)
    commands = [
        "if [ $PAI_TASK_INDEX = 0 ]; then",
        "  ssh worker_1-1 'echo $PAI_TASK_INDEX of $PAI_JOB_NAME'",
        "  ssh worker1-1 touch /tmp/done || true",  # it may end, and its sshd with it, before it has answered
        "  until [ -e /tmp/done ]; do sleep 0.05; done",  # the other may still be at its barrier
        "else",
        "  ssh worker_1-0 touch /tmp/done || true",
        "  until [ -e /tmp/done ]; do sleep 0.05; done",
        "fi",
    ]
    role = v2_job(commands, role={"instances": 2}).extras["openpai"]["config"]["taskRoles"]["worker"]
    job = with_plugins(commands, ssh(jobssh=True, sshbarrier=True), taskRoles={"worker_1": role})
    snapshot = on_free_ports(placed(job))
    launches = [launch_of(snapshot, number, addresses=HERE, job_seed=SEED) for number in (0, 1)]
    first, second = run_together(tmp_path, launches)
    assert (first.code, first.out) == (0, "1 of alice~job\n"), first.err
    assert second.code == 0, second.err
    assert "SSH barrier passed" in first.err


@needs_openssh
def test_a_stranger_on_the_port_of_a_task_is_not_spoken_to(tmp_path: Path) -> None:
    """Machines and ports are shared: another job may listen where a task listened before."""
    need(Isolation.FULL)
    job = with_plugins(["ssh worker-1 echo in"], ssh(jobssh=True), role={"instances": 2})
    other = with_plugins(["until [ -e /tmp/never ]; do sleep 0.05; done"], ssh(jobssh=True))
    mine = on_free_ports(placed(job))
    theirs = placed(other, id="j2")
    theirs = replace(theirs, tasks=(replace(theirs.tasks[0], ports=mine.tasks[1].ports),))
    launch = launch_of(mine, addresses=HERE, job_seed=SEED)
    # The worst case: it lets everyone in.
    stranger = launch_of(theirs, addresses=HERE, job_seed=bytes(32))
    stranger = replace(
        stranger, entry=stranger.entry.replace(make_job_key_pair(bytes(32)).public, make_job_key_pair(SEED).public)
    )

    async def scenario(rig: Rig) -> None:
        await rig.engine.start(stranger)
        log = rig.log(stranger.attempt_id, LogStream.STDERR)
        while b"sshd listens" not in await read_all(log):
            await log.wait_for_growth(await log.get_size(), 1.0)
        await rig.engine.start(launch)
        assert (await rig.end_of(launch.attempt_id)).code == 255
        assert b"Host key verification failed" in await read_all(rig.log(launch.attempt_id, LogStream.STDERR))
        assert await read_all(rig.log(launch.attempt_id)) == b""

    play(tmp_path, scenario)


@needs_openssh
def test_keys_of_a_home_that_is_mounted_stay(tmp_path: Path) -> None:
    """It may be a folder that the user keeps, with a key that is nowhere else."""
    need(Isolation.FULL)
    kept = tmp_path / "kept"
    (kept / ".ssh").mkdir(parents=True)
    mine = {"id_rsa": "my key\n", "config": "Host mine\n    Port 1\n"}
    for name, content in mine.items():
        (kept / ".ssh" / name).write_text(content)
    job = with_plugins(["ssh worker-0 echo in"], ssh(jobssh=True))
    snapshot = on_free_ports(placed(job))
    launch = launch_of(snapshot, addresses=HERE, job_seed=SEED)
    home = Mount(volume=HostFolder(str(kept)), target=pwd.getpwuid(0).pw_dir, read_only=False)
    for number in (1, 2):
        (ran,) = run_together(tmp_path / f"home{number}", [replace(launch, mounts=(home,))])
        assert (ran.code, ran.out) == (0, "in\n"), ran.err
        assert (kept / ".ssh/id_rsa").read_text() == mine["id_rsa"]
        config = (kept / ".ssh/config").read_text()
        assert (config.count("Include"), config.endswith(mine["config"])) == (1, True), config


@needs_openssh
def test_a_user_logs_in_with_their_key_and_others_do_not(tmp_path: Path) -> None:
    need(Isolation.FULL)
    job = with_plugins(["until [ -e /tmp/done ]; do sleep 0.05; done"], ssh(userssh={"type": "custom", "value": ""}))
    snapshot = on_free_ports(placed(job))
    launch = launch_of(snapshot, addresses=HERE, user_keys=(make_job_key_pair(SEED).public, "garbage"))
    for name, seed in (("mine", SEED), ("other", bytes(32))):
        (tmp_path / name).write_text(make_job_key_pair(seed).private)
        (tmp_path / name).chmod(0o600)
    options = [
        "-F",
        "none",
        "-o",
        "BatchMode=yes",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ]
    port = str(snapshot.tasks[0].ports["ssh"][0])

    async def login(key: str, command: str) -> tuple[int | None, str]:
        words = ["ssh", *options, "-o", "IdentitiesOnly=yes", "-i", str(tmp_path / key), "-p", port, "root@127.0.0.1"]
        child = await asyncio.create_subprocess_exec(*words, command, stdout=-1, stderr=-1)
        out, err = await child.communicate()
        return child.returncode, (out + err).decode()

    async def scenario(rig: Rig) -> None:
        await rig.engine.start(launch)
        log = rig.log(launch.attempt_id, LogStream.STDERR)
        while b"sshd listens" not in await read_all(log):
            await log.wait_for_growth(await log.get_size(), 1.0)
        code, said = await login("other", "true")
        assert (code, "Permission denied" in said) == (255, True), said
        assert (await login("mine", "echo $PAI_USER_NAME; touch /tmp/done"))[1].startswith("alice\n")
        end = await rig.end_of(launch.attempt_id)
        assert end.code == 0

    play(tmp_path / "home", scenario)


@needs_openssh
def test_an_sshd_that_cannot_listen_fails_the_task(tmp_path: Path) -> None:
    need(Isolation.FULL)
    job = with_plugins(["echo ran"], ssh(userssh={"type": "custom", "value": ""}))
    launch = launch_of(on_free_ports(placed(job)), addresses=HERE, user_keys=(make_job_key_pair(SEED).public,))
    # The engine would not start it on a port that is in use.
    unknown = launch.entry.replace('echo "Port $PAI_CONTAINER_SSH_PORT"', 'echo "ListenAddress 192.0.2.1"')
    assert unknown != launch.entry
    (ran,) = run_together(tmp_path, [replace(launch, entry=unknown)])
    assert (ran.code, ran.out) == (1, "")
    assert "sshd does not start: Cannot bind any address." in ran.err


@pytest.mark.release
@needs_openssh
def test_a_barrier_that_nobody_passes_ends_the_task(tmp_path: Path) -> None:
    need(Isolation.FULL)
    job = with_plugins(["echo run"], ssh(jobssh=True, sshbarrier=True, sshbarrierTimeout=1), role={"instances": 2})
    launch = launch_of(on_free_ports(placed(job)), addresses=HERE, job_seed=SEED)
    launch = replace(launch, entry=launch.entry.replace("-ge 60", "-ge 2"))  # rather than wait for a minute
    (ran,) = run_together(tmp_path, [launch])
    assert (ran.code, ran.out) == (249, ""), ran.err
    assert "SSH barrier reaches max retry count" in ran.err


def test_an_image_without_sshd_is_said_to_have_none(tmp_path: Path) -> None:
    job = with_plugins(["echo run"], ssh(userssh={"type": "custom", "value": KEY}))
    launch = launch_of(job)
    launch = replace(launch, entry=launch.entry.replace("command -v sshd", "command -v no-such-sshd"))
    ran = run(tmp_path, launch)
    assert (ran.code, ran.out) == (0, "run\n")
    assert "openssh-server is not in the image" in ran.err
    assert "SSH logins are not possible." in ran.err
