"""People inside tasks: what they run there has what the task has, and nothing more."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import MIB, Resources
from holdfast.engines.base import ExecCommand, ExecKind, ExecRefused, ExecSession, Isolation, Terminal
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.cgroups import list_pids
from holdfast.engines.embedded.processes import read_start_ticks
from tests.contracts.engine_contract import TIMEOUT, Rig, launch, read_all, sweep

from .ordinary import ROOT
from .scenarios import folder_of, need, play
from .sessions import Screen, everything, inside, let_in
from .test_modes import PLAIN

STAND = "echo up; sleep 600"  # and wait for it, as most scripts do
SHELL = ExecCommand(terminal=Terminal(columns=100, rows=30))
every_kind = pytest.mark.parametrize("options", [None, PLAIN], ids=["sandbox", "plain"])

# Everything a process can find out about itself; a last line of two words tells that nothing was left out.
LOOK = """
look() {
    grep -E '^(Uid|Gid|Groups|Umask|Sig(Blk|Ign|Cgt)|Cap...|NoNewPrivs|Seccomp.*|Cpus_allowed):' /proc/self/status
    cat /proc/self/cgroup /proc/self/limits /proc/self/uid_map /proc/self/oom_score_adj /proc/self/mountinfo
    for kind in cgroup ipc mnt net pid time user uts; do readlink /proc/self/ns/$kind; done
    readlink /proc/self/root; hostname; env | grep -v ^OLDPWD= | sort; echo THE END
}
"""


@every_kind
def test_a_command_inside(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"echo mine >file; {STAND}", env={"MINE": "a b\nc"})
        said = await inside(rig.engine, "a", "cat ~/file; echo to you >&2; cat; exit 3", b"typed\n")
        assert said == (3, "mine\ntyped\n", "to you\n")
        argv = ("sh", "-c", 'printf %s "$1$MORE$MINE"', "sh", "x y")
        assert await inside(rig.engine, "a", ExecCommand(argv=argv, env={"MORE": "!"})) == (0, "x y!a b\nc", "")
        assert (await inside(rig.engine, "a", "kill -9 $$")).code == 137

    play(tmp_path, scenario, options)


@pytest.mark.release_after(1)
@every_kind
def test_one_that_is_still_being_set_up_is_waited_for(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        for number in range(5):
            await rig.engine.start(launch(f"seen-{number}", STAND))
            assert await let_in(rig.engine).list_processes(f"seen-{number}") is not None
            await rig.engine.start(launch(f"reached-{number}", STAND))
            with pytest.raises(ExecRefused, match="Nothing listens on port 9 "):
                await let_in(rig.engine).connect_port(f"reached-{number}", 9)

    play(tmp_path, scenario, options)


@every_kind
def test_it_has_what_the_task_has(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    # Without a sandbox, the mounts are the machine's, and other tests change them meanwhile.
    look = LOOK if options is None else LOOK.replace(" /proc/self/mountinfo", "")

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"{look} look >~/own; {STAND}", env={"MINE": "a b\nc"})
        said = await inside(rig.engine, "a", f"{look} look >~/found; diff ~/own ~/found && tail -n 1 ~/own")
        assert said == (0, "THE END\n", "")

    play(tmp_path, scenario, options)


def test_it_begins_where_the_command_works(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "home", STAND)
        assert (await inside(rig.engine, "home", "pwd")).out == "/home/jovyan\n"
        await rig.start_and_wait_for(b"up", "chosen", STAND, workdir="/tmp/chosen/folder")
        assert (await inside(rig.engine, "chosen", "pwd")).out == "/tmp/chosen/folder\n"
        await rig.start_and_wait_for(b"up", "gone", f"mkdir x; cd x; rmdir ../x; {STAND}")
        assert (await inside(rig.engine, "gone", "pwd")).out == "/home/jovyan\n"

    play(tmp_path, scenario)


def test_it_counts_against_the_tasks_limits(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        note = folder_of(tmp_path, "a").read_start_note()
        assert note is not None
        if not note.cgroups:
            pytest.skip("there are no control groups for us to use here")
        session = await let_in(rig.engine).open_session("a", ExecCommand(argv=("sleep", "601")))
        await runs(rig, "a", ("sleep", "601"))
        (mine,) = [info.pid for info in await let_in(rig.engine).list_processes("a") if info.command[-1] == "601"]
        for group in note.cgroups:
            assert mine in list_pids([group])
        session.close()

    play(tmp_path, scenario)


def test_the_machine_is_out_of_sight(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    (tmp_path / "secret").write_text("of the machine")

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        said = await inside(
            rig.engine, "a", f"ls {tmp_path}/secret {ROOT}/src; echo /proc/[0-9]*; kill -0 {os.getpid()}"
        )
        assert said.code != 0
        assert "secret" not in said.out
        assert len(said.out.split()) < 10
        assert len(said.errors.splitlines()) == 3
        opened = await inside(rig.engine, "a", ExecCommand(argv=("ls", "/proc/self/fd")))
        assert opened.out.split() == ["0", "1", "2", "3"]  # the last is what it reads this by

    play(tmp_path, scenario)


@pytest.mark.release_after(1)
@every_kind
def test_what_cannot_be_run(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        script = "echo '#!/no/such' >bad; echo 'echo $1' >plain; chmod +x bad plain; echo >no; cd /; " + STAND
        await rig.start_and_wait_for(b"up", "a", script)
        home = (await inside(rig.engine, "a", "echo ~")).out.strip()
        missing = await inside(rig.engine, "a", ExecCommand(argv=("no-such-program", "x")))
        assert missing == (127, "", "holdfast: no-such-program: not found\n")
        assert (await inside(rig.engine, "a", ExecCommand(argv=(f"{home}/bad",)))).code == 127
        assert (await inside(rig.engine, "a", ExecCommand(argv=(f"{home}/no",)))).code == 126
        assert (await inside(rig.engine, "a", ExecCommand(argv=(f"{home}/plain", "x")))).out == "x\n"
        assert (await inside(rig.engine, "a", ExecCommand(argv=("",)))).code == 127
        for bad in (ExecCommand(script="a\0b"), ExecCommand(env={"a=b": "c"}), ExecCommand(argv=("x" * 200_000,))):
            with pytest.raises(ExecRefused):
                await let_in(rig.engine).open_session("a", bad)

    play(tmp_path, scenario, options)


@pytest.mark.release_after(1)
@every_kind
def test_a_terminal(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND, env={"PS1": "$ "})
        session = await let_in(rig.engine).open_session("a", SHELL)
        screen = Screen(session)
        await screen.type("echo size=$(stty size) term=$TERM $0 $(tty)=\n")
        assert (await screen.shows("size=30 100 term=xterm-256color -bash /dev/pts/")) is not None
        session.resize(50, 20)
        await screen.type("echo again=$(stty size)=\n")
        await screen.shows("again=20 50=")
        await screen.type("sleep 603\n")
        await runs(rig, "a", ("sleep", "603"))
        await screen.type("\x03")
        await screen.type("echo code=$?=\n")
        await screen.shows("code=130=")
        await screen.type("exit 5\n")
        await everything(session.read)
        assert await session.wait() == 5
        session.close()

    play(tmp_path, scenario, options)


async def runs(rig: Rig, attempt_id: str, command: tuple[str, ...]) -> None:
    """Wait until it does."""
    while command not in [info.command for info in await let_in(rig.engine).list_processes(attempt_id)]:
        await asyncio.sleep(0.01)


@pytest.mark.release_after(1)
@every_kind
def test_signals(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        session = await let_in(rig.engine).open_session("a", ExecCommand(script="echo ready; sleep 600; true"))
        await Screen(session).shows("ready")
        session.send_signal(signal.SIGTERM)
        assert await session.wait() == 143
        session.close()
        session = await let_in(rig.engine).open_session("a", SHELL)
        screen = Screen(session)
        for number in (signal.SIGINT, signal.SIGUSR1):
            await screen.type(f"sleep {number}00\n")
            await runs(rig, "a", ("sleep", f"{number}00"))
            session.send_signal(number)
            await screen.type("echo code=$?=\n")
            await screen.shows(f"code={128 + number}=")  # in the foreground, and not the shell
        session.close()

    play(tmp_path, scenario, options)


@pytest.mark.release_after(1)
@every_kind
def test_closing_hangs_up(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        for name, terminal in (("pipes", None), ("terminal", Terminal())):
            # Bash tells of its child's end, and would die of telling nobody.
            script = f"exec 2>/dev/null; trap 'echo >~/{name}; exit' HUP; echo ready; while :; do sleep 0.02; done"
            session = await let_in(rig.engine).open_session("a", ExecCommand(script=script, terminal=terminal))
            await Screen(session).shows("ready")
            reading, waiting = asyncio.create_task(everything(session.read)), asyncio.create_task(session.wait())
            session.close()
            session.close()
            await reading
            await waiting
            await session.write(b"nobody hears it")
            await inside(rig.engine, "a", f"until [ -e ~/{name} ]; do sleep 0.02; done")

    play(tmp_path, scenario, options)


@pytest.mark.release_after(1)
@every_kind
def test_what_runs_in_the_background_goes_on(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        said = await inside(rig.engine, "a", "nohup sleep 601 & echo $!")
        assert said.code == 0
        assert (await inside(rig.engine, "a", f"kill -0 {said.out}")).code == 0
        await rig.engine.stop("a", 0)
        assert (await rig.end_of("a")).code == 137

    play(tmp_path, scenario, options)


@every_kind
def test_sessions_end_with_their_task(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        sessions = [
            await let_in(rig.engine).open_session("a", command) for command in (SHELL, ExecCommand(script="sleep 600"))
        ]
        await rig.engine.stop("a", 0)
        await rig.end_of("a")
        for session in sessions:
            await everything(session.read)
            assert await session.wait() == 137
            session.close()
        with pytest.raises(ExecRefused, match="has ended"):
            await let_in(rig.engine).open_session("a", SHELL)

    play(tmp_path, scenario, options)


PATIENT = "trap 'until [ -e ~/left ]; do sleep 0.02; done; exit' TERM; echo up; sleep 600 & wait; wait"


def test_sessions_are_asked_to_end_with_the_rest(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", PATIENT)
        script = "trap 'echo >~/left; exit 7' TERM; echo ready; while :; do sleep 0.02; done 2>/dev/null"
        session = await let_in(rig.engine).open_session("a", ExecCommand(script=script))
        await Screen(session).shows("ready")
        await rig.engine.stop("a", TIMEOUT)
        await rig.end_of("a")
        assert await session.wait() in (7, 137)  # it left before the rest did
        session.close()

    play(tmp_path, scenario)


def test_a_held_task(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        workdir = None if rig.engine.get_health().isolation is Isolation.NONE else "/tmp/w"
        await rig.engine.start(launch("a", "echo mine >file; exit 3", hold=True, env={"MINE": "yes"}, workdir=workdir))
        while (await rig.look("a")).seen is not ObservedState.HELD:
            await asyncio.sleep(0.01)
        said = await inside(rig.engine, "a", "cat file; echo $MINE; pwd")
        assert said.out.split()[:2] == ["mine", "yes"]
        assert workdir is None or said.out.split()[2] == workdir
        assert (await rig.look("a")).seen is ObservedState.HELD
        await rig.engine.stop("a", TIMEOUT)
        assert (await rig.end_of("a")).code == 3

    for number, options in enumerate((None, PLAIN)):
        play(tmp_path / str(number), scenario, options)


@pytest.mark.release
def test_in_the_event_loop_that_servers_use(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def go() -> None:
        rig = Rig(lambda: EmbeddedEngine(tmp_path))
        await rig.open()
        try:
            await rig.start_and_wait_for(b"up", "a", STAND)
            said = await inside(rig.engine, "a", "wc -c; echo to you >&2; exit 3", b"x" * 3 * MIB)
            assert said == (3, f"{3 * MIB}\n", "to you\n")
            session = await let_in(rig.engine).open_session("a", SHELL)
            screen = Screen(session)
            await screen.type("echo a$((1 + 1))b\n")
            await screen.shows("a2b")
            await screen.type("exit 5\n")
            await everything(session.read)
            assert await session.wait() == 5
            session.close()
            closed = await let_in(rig.engine).open_session("a", SHELL)
            reading = asyncio.create_task(everything(closed.read))
            await asyncio.sleep(0)
            closed.close()
            await reading
        finally:
            await sweep(rig.engine, [])
            await rig.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(go(), TIMEOUT))


def test_who_is_not_there_cannot_be_entered(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", "true")).seen is ObservedState.EXITED
        for name in ("a", "never", "../a", "/etc"):
            with pytest.raises(ExecRefused):
                await let_in(rig.engine).open_session(name, ExecCommand(argv=("true",)))
            with pytest.raises(ExecRefused):
                await let_in(rig.engine).connect_port(name, 80)
            with pytest.raises(ExecRefused):
                await let_in(rig.engine).list_processes(name)

    play(tmp_path, scenario)


@pytest.mark.release
def test_fifty_at_once(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND, resources=Resources(cpu=2.0, memory=2048 * MIB))
        commands = [ExecCommand(script=f"cat; echo {number}") for number in range(50)]
        sessions = await asyncio.gather(*(let_in(rig.engine).open_session("a", command) for command in commands))

        async def talk(session: ExecSession, number: int) -> None:
            await session.write(b"hello ")
            session.close_stdin()
            assert await everything(session.read) == b"hello %d\n" % number
            assert await session.wait() == 0
            session.close()

        await asyncio.gather(*(talk(session, number) for number, session in enumerate(sessions)))

    play(tmp_path, scenario)


def test_much_goes_both_ways(tmp_path: Path) -> None:
    """More than any buffer holds; and nothing is lost when it has ended before it is read."""
    much, little = 8 * MIB, 60 * 1024

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        said = await inside(rig.engine, "a", f"head -c {much} | wc -c; cat >/dev/null", b"x" * (much + 1))
        assert said.out == f"{much}\n"
        session = await let_in(rig.engine).open_session("a", ExecCommand(script=f"head -c {little} /dev/zero; exit 4"))
        assert await session.wait() == 4
        assert await everything(session.read) == bytes(little)
        session.close()

    play(tmp_path, scenario)


def test_a_command_that_left_its_environment(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; exec env -i sleep 600", env={"MINE": "secret"})
        await runs(rig, "a", ("sleep", "600"))
        said = await inside(rig.engine, "a", "echo $HOME $HOLDFAST_ATTEMPT $MINE; type ls")
        assert said.out.split()[1] == "a"
        assert said.code == 0
        assert "secret" not in said.out

    play(tmp_path, scenario)


def test_another_server_finds_the_same_environment(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND, env={"MINE": "secret"})
        await rig.reopen()
        assert (await inside(rig.engine, "a", "echo $MINE")).out == "secret\n"

    play(tmp_path, scenario)


LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if family == socket.AF_INET6:
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
print("up", listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    connection.sendall(b"task")
    connection.close()
"""


def listening_task(address: str, port: int = 0) -> str:
    return f"exec python3 -c {shlex.quote(LISTEN)} {address} {port}"


async def port_of(rig: Rig, name: str, command: str) -> int:
    await rig.start_and_wait_for(b"\n", name, command)
    return int((await read_all(rig.log(name))).split()[1])


async def end(rig: Rig, name: str) -> None:
    await rig.engine.stop(name, 0)
    await rig.end_of(name)


@pytest.mark.release_after(3)
@every_kind
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_ports(tmp_path: Path, options: EmbeddedOptions | None, address: str) -> None:
    async def scenario(rig: Rig) -> None:
        name = "job.1.worker-0.0"
        port = await port_of(rig, name, listening_task(address))
        reader, writer = await let_in(rig.engine).connect_port(name, port)
        assert await reader.read() == b"task"
        writer.close()
        await end(rig, name)
        with pytest.raises(ExecRefused):
            await let_in(rig.engine).connect_port(name, port)

    play(tmp_path, scenario, options)


@every_kind
def test_ports_of_others_are_not_reached(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        name, other = "job.1.worker-0.0", "job.2.worker-0.0"
        await rig.start_and_wait_for(b"up", name, STAND)
        theirs = await port_of(rig, other, listening_task("127.0.0.1"))
        for number in (port, theirs):
            with pytest.raises(ExecRefused, match=f"Nothing listens on port {number} of worker-0"):
                await let_in(rig.engine).connect_port(name, number)
        with pytest.raises(ExecRefused):
            await let_in(rig.engine).connect_port(name, 65536)
        server.close()
        await server.wait_closed()

    play(tmp_path, scenario, options)


def test_a_port_that_another_program_has_on_another_address(tmp_path: Path) -> None:
    """The task listens on ::1; on 127.0.0.1 listens what trusts the machine's own connections."""

    async def scenario(rig: Rig) -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for name, address in (("job.1.a-0.0", "::1"), ("job.1.b-0.0", "::")):
            await port_of(rig, name, listening_task(address, port))
            reader, writer = await let_in(rig.engine).connect_port(name, port)
            assert await reader.read() == b"task"
            writer.close()
            await end(rig, name)
        server.close()
        await server.wait_closed()

    play(tmp_path, scenario)


@pytest.mark.release_after(1)
@every_kind
def test_processes(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "sh -c 'echo up; sleep 600; true'; true")
        python = ExecCommand(argv=("python3", "-c", "print('py', flush=True); input()"))
        session = await let_in(rig.engine).open_session("a", python)
        await Screen(session).shows("py")
        await runs(rig, "a", ("sleep", "600"))
        found = await let_in(rig.engine).list_processes("a")
        pids = [info.pid for info in found]
        (sleeps,) = [info for info in found if info.command == ("sleep", "600")]
        assert pids.index(sleeps.parent) < pids.index(sleeps.pid)
        assert [info.command[0] for info in found if info.python] == ["python3"]
        assert (sleeps.inner_pid == sleeps.pid) is (options is PLAIN)
        assert os.getpid() not in pids
        session.close()

    play(tmp_path, scenario, options)


def test_a_helper_cannot_be_looked_into(tmp_path: Path) -> None:
    """One that serves files stays what it was, a program of the machine's, among the task's processes."""
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        session = await let_in(rig.engine).open_session("a", ExecCommand(kind=ExecKind.SFTP))
        found = "for pid in /proc/[0-9]*; do grep -q ^Name:.holdfast $pid/status && echo $pid; done"
        (helper,) = (await inside(rig.engine, "a", found)).out.split()
        for way in (
            "readlink -v {}/exe",
            "cat {}/environ",
            "readlink -v {}/fd/0",
            "ls {}/root/",
            "cat {}/maps",
            "head -c 1 {}/mem",
        ):
            said = await inside(rig.engine, "a", way.format(helper))
            assert said.code != 0, way
            assert "ermission denied" in said.errors, way
        session.close()

    play(tmp_path, scenario)


PRETENDER = """
import os
print("exe", os.readlink("/proc/self/exe"), flush=True)
def attempt(call, *words):
    try: call(*words)
    except OSError as error: print("refused", error.strerror)
    else: print("DONE", words, flush=True)
held = os.open("/proc/self/exe", os.O_PATH)
os.set_inheritable(held, True)
me = f"/proc/self/fd/{held}"
attempt(os.open, me, os.O_WRONLY)
attempt(os.truncate, me, 0)
os.execve("/bin/sh", ["sh", "-c", f"(echo x >{me}) && echo DONE; chmod 0 {me}; echo end"], {})
"""


@pytest.mark.release
def test_a_shell_that_is_the_helper_itself(tmp_path: Path) -> None:
    """What a task reaches by it is a copy that it cannot change, nor keep others from using."""
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        before = Path(sys.executable).stat()
        script = f"cat >/tmp/pretender <<'END'\n#!/proc/self/exe\n{PRETENDER}END\nchmod +x /tmp/pretender\n{STAND}"
        await rig.start_and_wait_for(b"up", "a", script, env={"SHELL": "/tmp/pretender"})
        for _ in range(2):
            session = await let_in(rig.engine).open_session("a", ExecCommand())
            said = (await everything(session.read)).decode()
            session.close()
            assert "end" in said
            assert "DONE" not in said
        assert Path(sys.executable).stat() == before
        assert (await inside(rig.engine, "a", ExecCommand(argv=("echo", "fine")))).out == "fine\n"
        if os.geteuid() == 0:
            assert "exe /memfd:" in said

    play(tmp_path, scenario)


DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast.engines.base import ExecCommand, Terminal
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from tests.contracts.engine_contract import Rig

async def main():
    rig = Rig(lambda: EmbeddedEngine(Path(sys.argv[1]), EmbeddedOptions(isolation=sys.argv[2])))
    await rig.open()
    await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
    for terminal in (None, Terminal()):
        command = ExecCommand(argv=("sh", "-c", "echo in; sleep 602"), terminal=terminal)
        session = await rig.engine.open_session("a", command)
        await session.read()
    found = [info.pid for info in await rig.engine.list_processes("a") if info.command[-1].endswith("602")]
    print(*found, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.release
@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_sessions_end_with_the_server(tmp_path: Path, isolation: str) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"}
    command = [sys.executable, "-c", DYING, str(tmp_path), isolation]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) >= 2, done.stderr

    async def scenario(rig: Rig) -> None:
        assert (await rig.look("a")).seen is ObservedState.RUNNING
        while any(read_start_ticks(pid) is not None for pid in pids):
            await asyncio.sleep(0.01)

    play(tmp_path, scenario, EmbeddedOptions(isolation=isolation))
