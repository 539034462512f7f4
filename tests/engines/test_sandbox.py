"""What a task in a sandbox can see and do, and what it must not."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import MIB, Mount, Resources
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.processes import list_descendants, read_start_ticks
from holdfast.engines.embedded.sandbox.render import CAPABILITIES
from tests.contracts.engine_contract import Rig, launch, read_all

from .ordinary import alone, bombing
from .scenarios import folder_of, need, play


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)


@pytest.fixture
def _full() -> None:
    need(Isolation.FULL)


# As numbered by the kernel.
CAPABILITY_BITS = {
    "CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3, "CAP_FSETID": 4, "CAP_KILL": 5, "CAP_SETGID": 6,
    "CAP_SETUID": 7, "CAP_SETPCAP": 8, "CAP_NET_BIND_SERVICE": 10, "CAP_SYS_CHROOT": 18, "CAP_AUDIT_WRITE": 29,
    "CAP_SETFCAP": 31,
}  # fmt: skip


async def output(rig: Rig, script: str, **more: object) -> str:
    """What a script prints; it must succeed."""
    name = f"t{len(rig.told)}"
    seen = await rig.run(name, script, **more)
    log = await read_all(rig.log(name, LogStream.MERGED))
    assert (seen.seen, seen.code) == (ObservedState.EXITED, 0), (seen, log)
    return log.decode()


@pytest.mark.usefixtures("_full")
def test_the_sandbox_is_the_full_one(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.engine.get_health().isolation is Isolation.FULL

    play(tmp_path, scenario)


@pytest.mark.usefixtures("_full")
def test_private_parts_of_the_machine_are_hidden(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the server's own\n")
    shadow = Path("/etc/shadow").read_text()

    async def scenario(rig: Rig) -> None:
        said = await output(
            rig, f"cat {secret} {tmp_path}/home/tasks/*/claim 2>&1 || true; ls -A /root /srv /mnt /home"
        )
        assert "own" not in said
        assert said.count("No such file") == 2
        assert "jovyan" in said
        assert await output(rig, "ls -A /tmp /var/tmp /root") == "/root:\n\n/tmp:\n\n/var/tmp:\n"
        inside = await output(rig, "cat /etc/shadow; ls /etc/ssl/private /etc/gshadow- 2>&1 || true")
        assert inside != shadow
        assert inside.startswith("root:*:")
        assert "No such file" in inside
        top = (await output(rig, "ls -A /")).split()
        assert set(top) <= {
            "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc",
            "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var", "nix",
        }  # fmt: skip

    play(tmp_path / "home", scenario)


@pytest.mark.usefixtures("_full")
def test_more_can_be_hidden_and_more_can_be_shown(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "file").write_text("for all\n")
    options = EmbeddedOptions(hidden=("/usr/share/doc",), host_show=(str(shown), "/no/such/folder"))

    async def scenario(rig: Rig) -> None:
        said = await output(rig, f"ls /usr/share/doc 2>&1 || true; cat {shown}/file; touch {shown}/x 2>&1 || true")
        assert "cannot access '/usr/share/doc'" in said
        assert "for all" in said
        assert "Read-only" in said

    play(tmp_path / "home", scenario, options)


@pytest.mark.usefixtures("_full")
def test_changes_stay_in_the_task(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        change = "echo x >/etc/holdfast-test; rm /usr/bin/env; echo root:x >/etc/passwd; touch /home/jovyan/mine; ls /"
        await output(rig, change)
        assert Path("/usr/bin/env").exists()
        assert not Path("/etc/holdfast-test").exists()
        said = await output(rig, "ls /home/jovyan /etc/holdfast-test 2>&1 || true; env | head -1; head -1 /etc/passwd")
        assert "mine" not in said
        assert "root:x:0:0" in said

    play(tmp_path, scenario)


def test_it_has_namespaces_of_its_own(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        said = await output(
            rig, "for n in pid mnt ipc uts; do readlink /proc/self/ns/$n; done; hostname; ls -d /proc/[0-9]*"
        )
        for name in ("pid", "mnt", "ipc", "uts"):
            assert str(Path(f"/proc/self/ns/{name}").readlink()) not in said
        assert "worker-0" in said
        assert said.count("/proc/") <= 4
        assert str(Path("/proc/self/ns/net").readlink()) in await output(rig, "readlink /proc/self/ns/net")

    play(tmp_path, scenario)


@pytest.mark.usefixtures("_full")
def test_it_has_few_powers(tmp_path: Path) -> None:
    expected = sum(1 << CAPABILITY_BITS[name] for name in CAPABILITIES)
    attempts = {
        "mount -t tmpfs none /mnt": "permission denied",
        "unshare --user --map-root-user true": "not permitted",
        "unshare --mount true": "not permitted",
        "mknod /tmp/disk b 8 0": "not permitted",
        "echo 1 >/proc/sys/kernel/panic": "Read-only",
        "mkdir /sys/fs/cgroup/memory/x /sys/fs/cgroup/x": "Read-only",
        "chroot / mount -t proc proc /mnt": "permission denied",
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'": "not permitted",
        "python3 -c 'import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))'": "not permitted",
    }

    async def scenario(rig: Rig) -> None:
        status = await output(rig, "cat /proc/self/status")
        fields = dict(line.split(":", 1) for line in status.splitlines())
        assert int(fields["CapEff"], 16) == expected
        assert int(fields["CapPrm"], 16) == expected
        assert fields["NoNewPrivs"].strip() == "1"
        assert fields["Seccomp"].strip() == "2"
        tries = "\n".join(f"(if {command}; then echo DONE; fi) 2>&1; echo ---" for command in attempts)
        answers = (await output(rig, tries)).split("---\n")
        for (command, refusal), said in zip(attempts.items(), answers, strict=False):
            assert "DONE" not in said, command
            assert refusal.lower() in said.lower(), (command, said)

    play(tmp_path, scenario)


@pytest.mark.usefixtures("_full")
def test_ordinary_work_is_not_in_the_way(tmp_path: Path) -> None:
    """Threads, subprocesses, pipes, sockets, shared memory, changing users: what programs do all day."""
    script = """
    python3 - <<'END'
import ctypes, multiprocessing, os, socket, subprocess, threading, time
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
t = threading.Thread(target=lambda: None); t.start(); t.join()
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
s = socket.create_server(("127.0.0.1", 0)); s.close()
open("/dev/shm/x", "wb").write(b"x" * 1000)
pid = os.fork()
if pid == 0:
    os.setgid(1); os.setuid(1); os._exit(os.getuid())
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
os.chown("/tmp", 5, 5); os.mkfifo("/tmp/fifo"); os.symlink("a", "/tmp/link")
assert subprocess.run(["sh", "-c", "yes | head -1"], capture_output=True).stdout == b"y\\n"
END
    apt-get --version >/dev/null; ldd /bin/ls >/dev/null; echo fine
    """

    async def scenario(rig: Rig) -> None:
        assert (await output(rig, script)).endswith("fine\n")

    play(tmp_path, scenario)


def test_nothing_of_the_server_leaks_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SECRET", "hunter2")
    ours = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(ours, True)
    try:

        async def scenario(rig: Rig) -> None:
            said = await output(
                rig, "env; tr '\\0' '\\n' </proc/1/environ; ls /proc/self/fd; umask", env={"MINE": "yes"}
            )
            assert "hunter2" not in said
            assert "MINE=yes" in said
            assert "HOLDFAST_ATTEMPT=t" in said
            assert said.splitlines()[-5:-1] == ["0", "1", "2", "3"]  # 3 is the listing itself
            assert said.splitlines()[-1] == "0022"
            assert await output(rig, "set +o pipefail; yes | head -1; echo ${PIPESTATUS[0]}") == "y\n141\n"

        play(tmp_path, scenario)
    finally:
        os.close(ours)


def test_secrets_are_neither_on_disk_nor_in_arguments(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        env = {"TOKEN": "very-secret-1"}
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600 # very-secret-2", env=env)
        folder = folder_of(tmp_path, "a")
        runner = folder.read_claim().pid
        assert runner is not None
        for pid in (runner, *list_descendants(runner)):
            assert b"very-secret" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        for path in Path(folder.path).iterdir():
            if path.is_file() and not path.is_symlink():
                assert b"very-secret" not in path.read_bytes(), path
        assert "very-secret" not in str(Path(folder["start"]).readlink())

    play(tmp_path, scenario)


def test_it_gets_what_it_asked_for(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "in").write_text("data\n")
    mounts = (
        Mount(volume=HostFolder(str(data)), target="/datasets/d"),
        Mount(volume=HostFolder(str(data)), target="/project/p", read_only=False),
    )

    async def scenario(rig: Rig) -> None:
        said = await output(
            rig,
            "pwd; cat /datasets/d/in; touch /datasets/d/x 2>&1 || true; echo out >/project/p/out; env | sort;"
            "df --output=size -k /dev/shm | tail -1",
            mounts=mounts,
            workdir="/new/place",
            ports={"debug-port": (23456, 23457)},
            resources=Resources(memory=256 * MIB, shm=5 * MIB),
            env={"LANG": "de_DE.UTF-8"},
        )
        assert said.startswith("/new/place\ndata\ntouch: cannot touch")
        assert (data / "out").read_text() == "out\n"
        for line in (
            "HOLDFAST_PORT_DEBUG_PORT=23456,23457", "HOME=/home/jovyan", "LANG=de_DE.UTF-8",
            "CUDA_VISIBLE_DEVICES=", "HOSTNAME=worker-0",
        ):  # fmt: skip
            assert f"\n{line}\n" in said
        assert said.split()[-1] == str(5 * 1024)

    play(tmp_path / "home", scenario)


def test_a_taken_port_is_a_passing_refusal(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]

        async def scenario(rig: Rig) -> None:
            seen = await rig.engine.start(launch("a", "true", ports={"http": (port,)}))
            assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, True, "port-in-use")
            assert str(port) in seen.message
            assert rig.engine.open_log("a", LogStream.STDOUT) is None
            server.close()
            assert (await rig.run("a", "true", ports={"http": (port,)})).code == 0

        play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("more", "words", "cause"),
    [
        ({"mounts": (Mount(volume=HostFolder("/no/such"), target="/x"),)}, "/no/such", "not-allowed"),
        ({"mounts": (Mount(volume=HostFolder("/etc"), target="x"),)}, "absolute", "not-allowed"),
        ({"env": {"A=B": "x"}}, "A=B", "invalid-task"),
        ({"env": {"A": "x\0y"}}, "forbidden character", "invalid-task"),
        ({"env": {"A": "x" * 200_000}}, "longer", "invalid-task"),
        ({"env": {f"V{n}": "x" for n in range(5000)}}, "5000", "invalid-task"),
    ],
)
def test_what_cannot_be_given_is_refused_with_a_reason(
    tmp_path: Path, more: dict[str, object], words: str, cause: str
) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.engine.start(launch("a", "true", **more))
        assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, False, cause)
        assert words in seen.message
        assert not list((tmp_path / "tasks").iterdir())

    play(tmp_path, scenario)


def test_a_large_environment_and_script_fit(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        env = {f"V{n}": "v" * 400 for n in range(1900)}
        script = "\n".join(f"x{n}={'y' * 100}" for n in range(5000)) + "\necho $x4999 | wc -c; env | grep -c ^V"
        assert await output(rig, script, env=env) == "101\n1900\n"

    play(tmp_path, scenario)


def test_killing_ones_own_group_is_an_end_like_any_other(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "sleep 600 & trap '' TERM; kill 0; exit 9")
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 9)
        assert (await rig.run("b", "kill -9 -1")).seen is ObservedState.EXITED

    play(tmp_path, scenario)


def test_what_a_task_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    mount = Mount(volume=HostFolder(str(shared)), target="/shared", read_only=False)

    async def scenario(rig: Rig) -> None:
        daemon = "(setsid sh -c 'trap \"\" TERM HUP; echo up >/shared/up; exec sleep 600' &) & "
        wait = "while [ ! -e /shared/up ]; do sleep 0.01; done"
        seen = await rig.run("a", daemon + wait, mounts=(mount,))
        assert seen.code == 0
        claim = folder_of(tmp_path / "home", "a").read_claim()
        assert claim.init_pid is not None
        assert read_start_ticks(claim.init_pid) is None  # and with it everything of its namespace has gone

    play(tmp_path / "home", scenario)


def test_a_fork_bomb_can_be_stopped(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        if rig.engine.get_health().limits == "watched" and not alone():
            pytest.skip("without control groups a fork bomb would hit every test of this user")
        bomb = "trap '' TERM; echo up; f() { while :; do (f) 2>/dev/null & sleep 0.01; done; }; f"
        await rig.start_and_wait_for(b"up", "a", bomb, resources=Resources(cpu=0.2, memory=128 * MIB))
        await rig.engine.stop("a", 0.3)
        assert (await rig.end_of("a")).seen is ObservedState.EXITED

    with bombing():
        play(tmp_path / "home", scenario, EmbeddedOptions(pids_max=100))


def test_odd_characters_in_the_servers_own_path(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert await output(rig, "echo fine") == "fine\n"

    play(tmp_path / "a b:c,d\\e'f", scenario)
