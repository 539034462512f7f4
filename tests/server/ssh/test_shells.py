"""What can be done inside, with the real ssh, scp and sftp."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.free_ports import reserve_port

from .rig import Ran, SshRig
from .screen import Screen

pytestmark = pytest.mark.anyio


@pytest.fixture
async def user(rig: SshRig) -> str:
    """The name by which a task is entered that runs."""
    await rig.add_key(rig.house.admin)
    return f"{(await rig.run_job()).id}.main-0"


# -- commands


async def test_a_command_with_its_exit_status(rig: SshRig, user: str) -> None:
    ran = await rig.ssh(user, "127.0.0.1", "cat; echo oops >&2; exit 7", given=b"hello")
    assert (ran.code, ran.out, ran.err) == (7, b"hello", "oops\n")


async def test_bytes_stay_as_they_are(rig: SshRig, user: str) -> None:
    sent = os.urandom(3_000_000)
    ran = await rig.ssh(user, "127.0.0.1", "cat", given=sent)
    assert ran.code == 0
    assert ran.out == sent


async def test_a_command_that_a_signal_ended(rig: SshRig, user: str) -> None:
    assert (await rig.ssh(user, "127.0.0.1", "kill -9 $$")).code == 137


async def test_a_command_that_reads_nothing_of_what_is_sent(rig: SshRig, user: str) -> None:
    ran = await rig.ssh(user, "127.0.0.1", "echo done; exit 4", given=b"x" * 2_000_000)
    assert (ran.code, ran.out) == (4, b"done\n")


async def test_a_script_by_stdin_as_remote_editors_send_it(rig: SshRig, user: str) -> None:
    ran = await rig.ssh(user, "-T", "127.0.0.1", "bash", given=b"echo one\nuname -s\nexit 5\n")
    assert (ran.code, ran.out) == (5, b"one\nLinux\n")


async def test_a_shell_without_a_terminal(rig: SshRig, user: str) -> None:
    ran = await rig.ssh(user, "-T", "127.0.0.1", given=b"echo one; test -t 0 || echo no terminal; exit 6\n")
    assert (ran.code, ran.out) == (6, b"one\nno terminal\n")


async def test_what_goes_on_in_the_background_holds_nobody_up(rig: SshRig, user: str) -> None:
    """With its own output elsewhere, as remote editors start their servers."""
    ran = await rig.ssh(user, "127.0.0.1", "nohup sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")
    assert ran.code == 0
    assert (await rig.ssh(user, "127.0.0.1", f"kill {ran.out.decode().strip()}")).code == 0  # it goes on


async def test_few_variables_come_along(rig: SshRig, user: str) -> None:
    sent = ["-o", "SetEnv=LANG=de_DE.UTF-8 LC_TIME=C LD_PRELOAD=/evil.so BASH_ENV=/evil PATH=/evil"]
    ran = await rig.ssh(user, *sent, "127.0.0.1", "env")
    found = dict(line.partition("=")[::2] for line in ran.out.decode().splitlines())
    assert (found["LANG"], found["LC_TIME"]) == ("de_DE.UTF-8", "C")
    assert "/evil" not in ran.out.decode()


async def test_agents_and_displays_stay_at_home(rig: SshRig, user: str) -> None:
    agent = rig.folder / "agent"
    started = await rig.run(["ssh-agent", "-a", str(agent)])
    pid = started.out.decode().partition("SSH_AGENT_PID=")[2].partition(";")[0]
    try:
        words = [
            "ssh",
            *rig.options(IdentityAgent=str(agent)),
            "-A",
            "-X",
            "-p",
            str(rig.port),
            "-l",
            user,
            "127.0.0.1",
        ]
        ran = await rig.run([*words, 'echo "agent=$SSH_AUTH_SOCK display=$DISPLAY"'])
        assert ran.out == b"agent= display=\n"
    finally:
        await rig.run(["kill", pid])


# -- a terminal


async def test_a_shell_at_a_terminal(rig: SshRig, user: str) -> None:
    async with Screen(rig.ssh_words(user, "127.0.0.1"), columns=91, rows=33) as screen:
        screen.type("stty size; tty; echo $TERM\n")
        await screen.until("33 91")
        await screen.until("/dev/pts/")
        await screen.until("xterm-256color")
        screen.resize(120, 40)
        screen.type("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo wi''der\n")
        await screen.until("wider")
        screen.type("sleep 1000\n")
        await asyncio.sleep(0.2)  # it may begin; a Ctrl-C that comes before it is as good
        screen.type("\x03")
        screen.type("echo aft''er; exit 9\n")
        await screen.until("after")
        assert await screen.end() == 9


async def test_a_command_at_a_terminal(rig: SshRig, user: str) -> None:
    async with Screen(
        rig.ssh_words(user, "-t", "127.0.0.1", "read -p 'na''me? ' name; echo \"h\"i $name; exit 3")
    ) as screen:
        await screen.until("name? ")
        screen.type("ann\n")
        await screen.until("hi ann")
        assert await screen.end() == 3


async def test_all_that_was_written_comes_before_the_end(rig: SshRig, user: str) -> None:
    async with Screen(rig.ssh_words(user, "-t", "127.0.0.1", "seq 1 20000")) as screen:
        await screen.until("\n20000\r\n")
        assert await screen.end() == 0


# -- files


async def test_files_by_scp_both_ways(rig: SshRig, user: str, tmp_path: Path) -> None:
    source, there, back = tmp_path / "source", "there", tmp_path / "back"
    source.write_bytes(os.urandom(20_000_000))
    scp = ["scp", *rig.options(), "-P", str(rig.port)]
    assert (await rig.run([*scp, str(source), f"{user}@127.0.0.1:{there}"])).code == 0
    assert (await rig.run([*scp, f"{user}@127.0.0.1:{there}", str(back)])).code == 0
    assert back.read_bytes() == source.read_bytes()


async def test_files_by_sftp(rig: SshRig, user: str, tmp_path: Path) -> None:
    source, there, back, folder = tmp_path / "source", "there", tmp_path / "back", "folder"
    source.write_text("contents")
    orders = f"put {source} {there}\nmkdir {folder}\nrename {there} {folder}/x\nget {folder}/x {back}\n"
    sftp = ["sftp", *rig.options(), "-P", str(rig.port), "-b", "-", f"{user}@127.0.0.1"]
    ran = await rig.run(sftp, orders.encode())
    assert ran.code == 0, ran.err
    assert back.read_text() == "contents"


async def test_another_subsystem_is_refused(rig: SshRig, user: str) -> None:
    ran = await rig.ssh(user, "-s", "127.0.0.1", "netconf")
    assert ran.code != 0
    assert "subsystem request failed" in ran.err


# -- ports


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    """Answers in capitals, and ends when its client has."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


ECHO = """
import socketserver
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data.upper())
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


@asynccontextmanager
async def echo_in_task(rig: SshRig, user: str) -> AsyncIterator[int]:
    """The same, started in the task."""
    words = rig.ssh_words(user, "127.0.0.1", f"exec python3 -c {shlex.quote(ECHO)}")
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(await asyncio.wait_for(process.stdout.readline(), 20))
    finally:
        await ended(process)


async def ask(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    writer.write_eof()
    found = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return found


async def until_open(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(words: list[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        await ended(process)


async def ended(process: asyncio.subprocess.Process) -> None:
    """ssh looks whether it was told to end, then waits for something to happen: a signal in between goes unheard."""
    while process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 1)


async def test_a_port_of_the_task_here(rig: SshRig, user: str) -> None:
    here = reserve_port()
    async with echo_in_task(rig, user) as there:
        line = f"{here}:localhost:{there}"
        async with running(rig.ssh_words(user, "-N", "-L", line, "127.0.0.1")):
            await until_open(here)
            found = await asyncio.gather(*(ask(here, b"hello %d " % n * 10_000) for n in range(20)))
    assert found == [b"HELLO %d " % n * 10_000 for n in range(20)]


@pytest.mark.release_after(1)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "main-0"])
async def test_names_of_the_task_itself(rig: SshRig, user: str, host: str) -> None:
    async with echo_in_task(rig, user) as there:
        ran = await rig.ssh(user, "-W", f"{host}:{there}", "127.0.0.1", given=b"hello")
    assert ran.out == b"HELLO", ran.err


async def test_ports_of_the_machine_are_not_reached(rig: SshRig, user: str) -> None:
    async with echo_server() as there:
        for port in (there, rig.port):
            ran = await rig.ssh(user, "-W", f"localhost:{port}", "127.0.0.1", given=b"hello")
            assert (ran.code, ran.out) == (255, b"")
            assert "forwarding failed" in ran.err


@pytest.mark.release
async def test_all_ports_of_the_task_by_a_proxy(rig: SshRig, user: str) -> None:
    """As remote editors reach what they started."""
    proxy = reserve_port()
    async with echo_in_task(rig, user) as there, running(rig.ssh_words(user, "-N", "-D", str(proxy), "127.0.0.1")):
        await until_open(proxy)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy)
        writer.write(b"\x05\x01\x00")
        assert await reader.readexactly(2) == b"\x05\x00"
        writer.write(b"\x05\x01\x00\x03" + bytes([9]) + b"localhost" + there.to_bytes(2, "big"))
        assert (await asyncio.wait_for(reader.readexactly(10), 20))[1] == 0
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.readexactly(5), 20) == b"HELLO"
        writer.close()


async def forwarded(rig: SshRig, user: str, to: str) -> Ran:
    """With what ssh says of it, which it does not at its quietest."""
    words = ["ssh", *rig.options(LogLevel="INFO"), "-p", str(rig.port), "-l", user, "-W", to, "127.0.0.1"]
    return await rig.run(words)


@pytest.mark.release_after(2)
@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "0.0.0.0", "worker-1", "169.254.169.254", "::"])
async def test_other_machines_are_not_reached(rig: SshRig, user: str, host: str) -> None:
    shown = f"[{host}]" if ":" in host else host
    ran = await forwarded(rig, user, f"{shown}:80")
    assert ran.code != 0
    assert "Port forwarding reaches only main-0" in ran.err


async def test_a_port_where_nobody_listens(rig: SshRig, user: str) -> None:
    port = reserve_port()
    ran = await forwarded(rig, user, f"localhost:{port}")
    assert ran.code != 0
    assert f"Nothing listens on port {port}" in ran.err


async def test_a_port_of_the_client_there(rig: SshRig, user: str) -> None:
    there = reserve_port()
    async with echo_server() as here:
        async with running(rig.ssh_words(user, "-N", "-R", f"{there}:127.0.0.1:{here}", "127.0.0.1")):
            await until_open(there)
            assert await asyncio.gather(*(ask(there, b"hi %d" % n) for n in range(10))) == [
                b"HI %d" % n for n in range(10)
            ]
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await ask(there, b"x")  # its listener has gone with the connection


async def test_a_task_reaches_the_clients_port(rig: SshRig, user: str) -> None:
    there = reserve_port()
    async with echo_server() as here:
        ask_inside = f"exec 3<>/dev/tcp/127.0.0.1/{there}; echo hello >&3; head -n 1 <&3"
        ran = await rig.ssh(user, "-R", f"{there}:127.0.0.1:{here}", "127.0.0.1", ask_inside)
    assert (ran.code, ran.out) == (0, b"HELLO\n"), ran.err


async def test_a_port_there_of_the_servers_choice(rig: SshRig, user: str) -> None:
    async with echo_server() as here:
        words = [
            "ssh",
            *rig.options(LogLevel="INFO"),
            "-N",
            "-R",
            f"0:127.0.0.1:{here}",
            "-p",
            str(rig.port),
            "-l",
            user,
        ]
        async with running([*words, "127.0.0.1"]) as client:
            assert client.stderr is not None
            while b"Allocated port" not in (line := await asyncio.wait_for(client.stderr.readline(), 20)):
                pass
            assert await ask(int(line.split()[2]), b"hi") == b"HI"


@pytest.mark.release_after(1)
@pytest.mark.parametrize("where", ["0.0.0.0:{}", "*:{}", "localhost:80"])
async def test_no_port_for_all_the_world_or_of_the_system(rig: SshRig, user: str, where: str) -> None:
    line = f"{where.format(reserve_port())}:127.0.0.1:1"
    ran = await rig.ssh(user, "-o", "ExitOnForwardFailure=yes", "-R", line, "127.0.0.1", "true")
    assert ran.code == 255
    assert "remote port forwarding failed" in ran.err


async def test_sockets_in_files_are_not_reached(rig: SshRig, user: str, tmp_path: Path) -> None:
    ran = await rig.ssh(user, "-o", "ExitOnForwardFailure=yes", "-R", f"{tmp_path}/s:localhost:1", "127.0.0.1", "true")
    assert ran.code == 255
    assert not (tmp_path / "s").exists()


async def test_several_sessions_on_one_connection(rig: SshRig, user: str) -> None:
    control = f"/tmp/hf-{os.getpid()}-{rig.port}"  # paths of sockets are short
    async with running(rig.ssh_words(user, "-M", "-S", control, "-N", "127.0.0.1")) as master:
        async with asyncio.timeout(20):
            while not Path(control).exists():
                await asyncio.sleep(0.02)
        found = await asyncio.gather(
            *(rig.run(["ssh", "-F", "none", "-S", control, "x", f"echo {n}; exit {n}"]) for n in range(8))
        )
        assert [(ran.code, ran.out) for ran in found] == [(n, b"%d\n" % n) for n in range(8)]
        assert master.returncode is None


async def test_many_sessions_at_once(rig: SshRig, user: str) -> None:
    found = await asyncio.gather(*(rig.ssh(user, "127.0.0.1", f"cat; exit {n}", given=b"%d" % n) for n in range(12)))
    assert [(ran.code, ran.out) for ran in found] == [(n, b"%d" % n) for n in range(12)]
