"""Sessions in tasks on a real Slurm cluster, beyond the contract; and the pure parts of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import ExecCommand, ExecRefused, Terminal
from holdfast.engines.slurm import SlurmEngine
from holdfast.engines.slurm.revived_jobs import parse_replacements
from holdfast.engines.slurm.session_request import (
    StepLocation,
    parse_listeners,
    parse_processes,
    parse_welcome,
    render_session_file,
    render_step,
)
from holdfast.engines.slurm.sessions import get_local_host, list_direct_hosts
from tests.contracts.engine_rig import FOREVER, Rig, read_all
from tests.engines.sessions import Screen, everything, inside
from tests.engines.slurm_scenarios import make_player
from tests.slurm_cluster import SlurmCluster, run_cluster

GANG = ("j.0.master-0.0", "j.0.worker-0.0")
LISTEN = """
import socket
listener = socket.create_server(("127.0.0.2", 0))
print("port", listener.getsockname()[1], "", flush=True)
while True:
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()
"""
OPEN_SESSION = """
import asyncio, pathlib, sys
from holdfast.engines.base import ExecCommand
from holdfast.engines.slurm import SlurmEngine, SlurmOptions

async def main():
    engine = SlurmEngine(pathlib.Path(sys.argv[1]), SlurmOptions(conf=sys.argv[2]))
    await engine.open(lambda _: None)
    session = await engine.open_session("a", ExecCommand(script="trap : TERM; sleep 605; sleep 605"))
    print("open", flush=True)
    await session.wait()

asyncio.run(main())
"""


# --- pure -------------------------------------------------------------------------------------------------------------


def test_a_session_is_a_step_beside_the_task() -> None:
    location = StepLocation(folder="/f", job=7, node="n1")
    step = render_step(location, ["/p/session", "open", "/f", "id"])
    assert {"--jobid=7", "--overlap", "--mem=0", "--nodelist=n1", "--unbuffered"} <= set(step)
    assert step[-5:] == ["/bin/sh", "/p/session", "open", "/f", "id"]
    member = StepLocation(folder="/f", job=7, offset=2, node="n1")
    assert {"--jobid=7", "--het-group=2", "--pty"} <= set(render_step(member, ["x"], terminal=True))


def test_commands_and_variables_are_quoted_in_a_file_that_others_cannot_read() -> None:
    command = ExecCommand(argv=("a b", "$(c)"), env={"KEY": "it's", "not a name": "x"}, terminal=Terminal(term="vt100"))
    file = render_session_file(command, command.argv)
    assert file.secret
    lines = file.text.splitlines()
    assert lines[0] == "export KEY='it'\"'\"'s'"
    assert "export TERM=vt100" in lines
    assert "not a name" not in file.text
    assert lines[-1] == "set -- 'a b' '$(c)'"


def test_the_first_words_of_a_session_are_told_from_its_output() -> None:
    assert parse_welcome(b"id ready 12", "id") is None
    welcome = parse_welcome(b"id ready 12;out;put", "id")
    assert welcome is not None
    assert (welcome.pid, welcome.refusal, welcome.rest) == (12, "", b"out;put")
    refused = parse_welcome(b"id refused ended;", "id")
    assert refused is not None
    assert refused.refusal == "The task has ended."


def test_processes_are_parsed_and_damaged_lines_left_out() -> None:
    sleep = b"sleep\0a b\n\0".hex()
    found = parse_processes(f"20 3 10 no {sleep} sleep\n10 2 1 yes - my (odd) name\nnonsense\n30 4 1 no xyz x\n")
    assert [(each.pid, each.parent, each.command, each.python) for each in found] == [
        (10, 1, ("[my (odd) name]",), True),
        (20, 10, ("sleep", "a b\n"), False),
    ]


@pytest.mark.parametrize(
    ("listener", "direct", "local"),
    [
        ("0.0.0.0", ["10.0.0.5"], "127.0.0.1"),
        ("::", ["10.0.0.5"], "::1"),
        ("10.0.0.5", ["10.0.0.5"], "10.0.0.5"),
        ("10.1.0.5", ["10.1.0.5"], "10.1.0.5"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("::ffff:127.0.0.1", [], "127.0.0.1"),
        ("::1", [], "::1"),
    ],
)
def test_only_listeners_on_localhost_need_a_relay(listener: str, direct: list[str], local: str) -> None:
    assert list_direct_hosts([listener], "10.0.0.5") == direct
    assert get_local_host(listener) == local


def test_addresses_are_parsed_once_each() -> None:
    assert parse_listeners("0100007F\nxyz\n0100007F\n00000000\n") == ["127.0.0.1", "0.0.0.0"]


def test_the_addresses_of_a_gang_are_read_again() -> None:
    data = b"s|@holdfast:0:address@|10.0.0.5|g\nnonsense\n"
    assert parse_replacements(data) == {"@holdfast:0:address@": "10.0.0.5"}


# --- on a cluster -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def play(cluster: SlurmCluster, tmp_path: Path) -> Callable[..., None]:
    return make_player(cluster, tmp_path / "shared")


def get_engine(rig: Rig) -> SlurmEngine:
    assert isinstance(rig.engine, SlurmEngine)
    return rig.engine


@pytest.mark.release
def test_each_task_of_a_gang_has_its_own_sessions(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        for attempt_id in GANG:
            await rig.engine.start(rig.launch(attempt_id, FOREVER, gang=GANG, env={"WHO": attempt_id}))
        for attempt_id in GANG:
            await rig.wait_until_running(attempt_id)
            node = (await rig.look(attempt_id)).node
            said = await inside(rig.engine, attempt_id, 'echo "$WHO $SLURMD_NODENAME"')
            assert said == (0, f"{attempt_id} {node}\n", "")
        session = await get_engine(rig).open_session(GANG[1], ExecCommand(terminal=Terminal()))
        await rig.engine.stop(GANG[1], 0)
        await rig.end_of(GANG[1])
        await everything(session.read)
        assert await session.wait() == 137
        assert (await inside(rig.engine, GANG[0], "exit 4")).code == 4

    play(scenario)


@pytest.mark.release
def test_output_without_a_terminal_is_passed_on_at_once(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        script = "if [ -t 0 ] || [ -t 1 ] || [ -t 2 ]; then exit 9; fi; printf 'name? '; read name; echo \"$name\""
        session = await get_engine(rig).open_session("a", ExecCommand(script=script))
        await Screen(session).shows("name? ")  # no end of a line
        await session.write(b"ada\n")
        assert await everything(session.read) == b"ada\n"
        assert await session.wait() == 0
        session.close()

    play(scenario)


@pytest.mark.release
def test_a_session_has_the_ports_and_leaves_no_files(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        script = 'echo "$HOLDFAST_PORT_WEB"; sleep 600'
        await rig.start_and_wait_for(b"\n", "a", script, port_counts={"web": 1})
        ports = (await read_all(rig.log("a"))).decode()
        said = await inside(rig.engine, "a", 'echo "$HOLDFAST_PORT_WEB"; sleep 600 & exit 3')
        assert said == (3, ports, "")
        with pytest.raises(ExecRefused):
            await get_engine(rig).open_session("a", ExecCommand(argv=("x\0y",)))
        assert not list((tmp_path / "shared" / "tasks" / "a").glob("session*"))

    play(scenario)


@pytest.mark.release
def test_a_listener_that_only_its_node_reaches_is_relayed(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b" \n", "a", 'exec python3 -c "$PROGRAM"', env={"PROGRAM": LISTEN})
        port = int((await read_all(rig.log("a"))).split()[1])
        for _ in range(2):
            reader, writer = await get_engine(rig).connect_port("a", port)
            writer.write(b"x" * 1_000_000)
            writer.write_eof()
            assert await reader.read() == b"x" * 1_000_000
            writer.close()

    play(scenario)


@pytest.mark.release
def test_sessions_end_with_a_server_that_is_killed(play: Any, cluster: SlurmCluster, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPEN_SESSION, str(tmp_path / "shared"), str(cluster.conf),
            stdout=asyncio.subprocess.PIPE, env=dict(os.environ),
        )  # fmt: skip
        assert process.stdout is not None
        assert await process.stdout.readline() == b"open\n"
        assert ("sleep", "605") in [each.command for each in await get_engine(rig).list_processes("a")]
        process.send_signal(signal.SIGKILL)
        await process.wait()
        while ("sleep", "605") in [each.command for each in await get_engine(rig).list_processes("a")]:
            await asyncio.sleep(0.1)
        assert (await rig.look("a")).seen.alive

    play(scenario)
