"""Inside a task: sessions with and without a terminal, SFTP, ports, processes, stack dumps."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import struct
from pathlib import Path

import pytest

from holdfast.engines.base import ExecCommand, ExecKind, ExecRefused, ExecSession, SupportsExec, Terminal
from tests.engines.sessions import Screen, everything, inside

from .engine_rig import FOREVER, TIMEOUT, EngineHarness, Rig, read_all

SHELL = ExecCommand(terminal=Terminal(columns=100, rows=30))
MEGABYTE = 1_000_000
HUNG = """
import time
def hangs():
    time.sleep(1000)
print("up", flush=True)
hangs()
"""
LISTEN = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], "", flush=True)
while True:
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()
"""


async def wait_for_process(engine: SupportsExec, attempt_id: str, *command: str) -> None:
    while command not in [process.command for process in await engine.list_processes(attempt_id)]:
        await asyncio.sleep(0.01)


async def wait_for_size(screen: Screen, size: str) -> None:
    """Wait until a shell has that size: an engine may pass it on after what is typed next."""
    while True:
        await screen.type("echo a'gain'=$(stty size)=\n")
        await screen.shows("again=")
        if await screen.shows("=") == size:
            return


async def request_sftp(session: ExecSession, packet: bytes) -> bytes:
    """Send a packet, and return the answer without its length."""
    await session.write(struct.pack(">I", len(packet)) + packet)
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        block = await session.read()
        assert block, data
        data += block
    return data[4:]


def encode_text(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


class ExecContract(EngineHarness):
    # --- without a terminal -------------------------------------------------------------------------------------------

    def test_a_command_has_its_streams_and_its_exit_status(self) -> None:
        async def scenario(rig: Rig) -> None:
            self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER, env={"COLOUR": "a b\nc"})
            said = await inside(rig.engine, "a", "echo out; echo err >&2; cat; exit 3", b"typed")
            assert said == (3, "out\ntyped", "err\n")
            argv = ("sh", "-c", 'printf %s "$1$MORE$COLOUR"', "sh", "x y")
            assert await inside(rig.engine, "a", ExecCommand(argv=argv, env={"MORE": "!"})) == (0, "x y!a b\nc", "")
            assert (await inside(rig.engine, "a", "kill -9 $$")).code == 137
            assert (await inside(rig.engine, "a", ExecCommand(argv=("no-such-program",)))).code == 127
            assert await read_all(rig.log("a")) == b"up\n"  # sessions do not write to the log

        self.play(scenario)

    def test_a_session_has_the_files_and_folder_of_the_task(self, tmp_path: Path) -> None:
        (tmp_path / "work").mkdir()

        async def scenario(rig: Rig) -> None:
            self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", f'echo mine >"$HOME/file"\n{FOREVER}', workdir=f"{tmp_path}/work")
            said = await inside(rig.engine, "a", 'cat "$HOME/file"; pwd; echo theirs >"$HOME/new"')
            assert said.out == f"mine\n{tmp_path}/work\n"
            assert (await inside(rig.engine, "a", 'cat "$HOME/new"')).out == "theirs\n"

        self.play(scenario)

    def test_a_megabyte_goes_both_ways(self) -> None:
        data = os.urandom(MEGABYTE)

        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            session = await engine.open_session("a", ExecCommand(argv=("cat",)))

            async def send() -> None:
                await session.write(data)
                session.close_stdin()

            received, _ = await asyncio.gather(everything(session.read), send())
            assert received == data
            assert await session.wait() == 0
            session.close()
            script = f"head -c {MEGABYTE} /dev/zero >&2; exit 4"
            loud = await engine.open_session("a", ExecCommand(script=script))
            assert await everything(loud.read_stderr) == bytes(MEGABYTE)
            assert await loud.wait() == 4
            loud.close()

        self.play(scenario)

    def test_a_session_gets_signals(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            session = await engine.open_session("a", ExecCommand(script="echo ready; sleep 600; true"))
            await Screen(session).shows("ready")
            session.send_signal(signal.SIGTERM)
            assert await session.wait() == 143
            session.close()
            assert (await rig.look("a")).seen.alive

        self.play(scenario)

    @pytest.mark.parametrize("terminal", [None, Terminal()], ids=["pipes", "terminal"])
    def test_closing_a_session_hangs_up(self, terminal: Terminal | None) -> None:
        script = "exec 2>/dev/null; trap 'echo >~/left; exit' HUP; echo ready; while :; do sleep 0.02; done"

        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            session = await engine.open_session("a", ExecCommand(script=script, terminal=terminal))
            await Screen(session).shows("ready")
            for _ in range(2):
                session.close()
            await session.write(b"dropped")
            await inside(rig.engine, "a", "until [ -e ~/left ]; do sleep 0.02; done")

        self.play(scenario)

    # --- with a terminal ----------------------------------------------------------------------------------------------

    def test_a_terminal_has_a_size_and_sends_signals(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER, env={"PS1": "$ "})
            session = await engine.open_session("a", SHELL)
            screen = Screen(session)
            await screen.type("echo size=$(stty size) term=$TERM=\n")
            await screen.shows("size=30 100 term=xterm-256color=")
            session.resize(50, 20)
            await wait_for_size(screen, "20 50")
            await screen.type("sleep 603\n")
            await wait_for_process(engine, "a", "sleep", "603")
            await screen.type("\x03echo code=$?=\n")
            await screen.shows("code=130=")
            await screen.type("sleep 604\n")
            await wait_for_process(engine, "a", "sleep", "604")
            session.send_signal(signal.SIGTERM)  # in the foreground, and not the shell
            await screen.type("echo code=$?=\n")
            await screen.shows("code=143=")
            await screen.type("exit 5\n")
            await everything(session.read)
            assert await session.wait() == 5
            session.close()

        self.play(scenario)

    def test_ctrl_d_closes_the_input_of_a_terminal(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            session = await engine.open_session("a", ExecCommand(script="cat; exit 4", terminal=Terminal()))
            screen = Screen(session)
            await screen.type("typed\n")
            for _ in range(2):  # by the terminal, and by the command
                await screen.shows("typed")
            session.close_stdin()  # does nothing
            await screen.type("\x04")
            await everything(session.read)
            assert await session.wait() == 4
            session.close()

        self.play(scenario)

    # --- who is let in ------------------------------------------------------------------------------------------------

    def test_tasks_that_do_not_run_refuse_sessions(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.run("ended", "true")
            for attempt_id in ("ended", "never", "../ended"):
                with pytest.raises(ExecRefused):
                    await engine.open_session(attempt_id, ExecCommand(argv=("true",)))
                with pytest.raises(ExecRefused):
                    await engine.connect_port(attempt_id, 80)
                with pytest.raises(ExecRefused):
                    await engine.list_processes(attempt_id)

        self.play(scenario)

    def test_sessions_end_with_their_task(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER)
            sessions = [await engine.open_session("a", each) for each in (SHELL, ExecCommand(script="sleep 600"))]
            await rig.engine.stop("a", 0)
            await rig.end_of("a")
            for session in sessions:
                await everything(session.read)
                assert await session.wait() == 137
                session.close()

        self.play(scenario)

    def test_a_new_server_lets_in_and_sessions_end_without_the_task(self) -> None:
        async def scenario(rig: Rig) -> None:
            self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", FOREVER, env={"COLOUR": "green"})
            await rig.reopen()
            assert (await inside(rig.engine, "a", 'echo "$COLOUR"')).out == "green\n"
            assert (await rig.look("a")).seen.alive

        self.play(scenario)

    # --- files, processes, ports --------------------------------------------------------------------------------------

    def test_files_are_read_by_sftp(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", f'echo mine >"$HOME/file"\npwd\n{FOREVER}')
            home = (await read_all(rig.log("a"))).split(b"\n")[0]
            session = await engine.open_session("a", ExecCommand(kind=ExecKind.SFTP))
            assert (await request_sftp(session, struct.pack(">BI", 1, 3)))[:5] == struct.pack(">BI", 2, 3)
            opened = await request_sftp(
                session, struct.pack(">BI", 3, 1) + encode_text(home + b"/file") + struct.pack(">II", 1, 0)
            )
            assert opened[0] == 102  # a handle
            read = struct.pack(">BI", 5, 2) + opened[5:] + struct.pack(">QI", 0, 1000)
            assert (await request_sftp(session, read))[5:] == encode_text(b"mine\n")
            session.close_stdin()
            assert await session.wait() == 0
            session.close()

        self.play(scenario)

    def test_processes_are_listed_parents_first(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            await rig.start_and_wait_for(b"up", "a", "sh -c 'echo up; sleep 600; true'; true")
            await wait_for_process(engine, "a", "sleep", "600")
            found = await engine.list_processes("a")
            pids = [process.pid for process in found]
            (sleeps,) = [process for process in found if process.command == ("sleep", "600")]
            assert pids.index(sleeps.parent) < pids.index(sleeps.pid)
            assert os.getpid() not in pids
            inner = (await inside(rig.engine, "a", f"cat /proc/{sleeps.inner_pid}/cmdline")).out
            assert inner == "sleep\x00600\x00"

        self.play(scenario)

    def test_stacks_of_python_programs_are_dumped(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            script = 'exec python3 -c "$PROGRAM"'
            await rig.start_and_wait_for(b"up", "a", script, env={"PROGRAM": HUNG}, mounts=self.python_mounts)
            (process,) = [each for each in await engine.list_processes("a") if each.python]
            command = ExecCommand(kind=ExecKind.STACK_DUMP, process=process.inner_pid)
            said = await inside(rig.engine, "a", command)
            assert said.code == 0, said
            (thread,) = json.loads(said.out)
            assert [frame["name"] for frame in thread["frames"]] == ["hangs", "<module>"]

        self.play(scenario)

    def test_a_port_of_a_task_is_reached_and_no_other(self) -> None:
        async def scenario(rig: Rig) -> None:
            engine = self.need_exec(rig.engine)
            server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
            ours = server.sockets[0].getsockname()[1]
            script = f"exec python3 -c {shlex.quote(LISTEN)}"
            await rig.start_and_wait_for(b" \n", "listens", script, mounts=self.python_mounts)
            await rig.start_and_wait_for(b"up", "other", FOREVER)
            port = int((await read_all(rig.log("listens"))).split()[1])
            reader, writer = await engine.connect_port("listens", port)
            writer.write(b"x" * MEGABYTE)
            writer.write_eof()
            async with asyncio.timeout(TIMEOUT):
                assert await reader.read() == b"x" * MEGABYTE
            writer.close()
            for attempt_id, number in (("other", port), ("listens", ours), ("listens", 65536), ("other", 9)):
                with pytest.raises(ExecRefused):
                    await engine.connect_port(attempt_id, number)
            server.close()
            await server.wait_closed()

        self.play(scenario)
