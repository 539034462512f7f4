"""Which port and address: what the job asked for, by the names of both platforms."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.free_ports import reserve_port

from .debugged import TIMEOUT, Bench, Client

WAITS = "x = 1\n"
TASK = {"PAI_CURRENT_TASK_ROLE_NAME": "worker", "PAI_TASK_ROLE_INDEX": "1"}


def listens_on(port: int) -> set[str]:
    """Local addresses, as /proc writes them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {line[1].split(":")[0] for line in lines if line[3] == "0A" and int(line[1].split(":")[1], 16) == port}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("PAI_PORT_LIST_worker_1_debug", TASK),
        (
            "PAI_PORT_LIST_worker_1_debug",
            {**TASK, "PAI_TASK_ROLE_INDEX": "", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "1"},
        ),
        ("PAI_PORT_LIST_worker_1_debug", {**TASK, "PAI_TASK_ROLE_INDEX": "", "PAI_TASK_INDEX": "1"}),
        ("PAI_PORT_LIST_worker_1_my-port", {**TASK, "DEBUG_PORT_NAME": "my-port"}),
        ("PAI_PORT_LIST_psserver_1_debug", {**TASK, "PAI_CURRENT_TASK_ROLE_NAME": "PS_server"}),
        ("HOLDFAST_PORT_DEBUG", {}),
        ("HOLDFAST_PORT_MY_PORT", {"DEBUG_PORT_NAME": "my-port"}),
    ],
)
def test_the_tasks_port_by_name(desk: Bench, name: str, task: dict[str, str]) -> None:
    port = reserve_port()
    program = desk.debug(WAITS, env={**task, name: f"{port},{port + 1}"})
    assert program.port() == port
    assert listens_on(port) == {"00000000"}
    program.client().prompt()


def test_openpais_lines(desk: Bench) -> None:
    port = reserve_port()
    env = {
        **TASK,
        "PAI_PORT_LIST_worker_1_debug": str(port),
        "PAI_HOST_IP_worker_1": "10.0.0.11",
        "DEBUG_TIMEOUT": "90",
    }
    program = desk.debug(WAITS, env=env)
    program.port()
    assert program.stderr.startswith(
        f"debug host ip is set to 10.0.0.11, port is set to {port}, timeout is set to 90\n"
        f"paipdb is running on 10.0.0.11:{port}\n"
    )


def test_how_to_attach_stands_in_the_log(desk: Bench) -> None:
    port = reserve_port()
    env = {
        "HOLDFAST_JOB": "job-7",
        "HOLDFAST_TASK": "worker-1",
        "HOLDFAST_PORT_DEBUG": str(port),
        "DEBUG_TOKEN": "12345678",
    }
    program = desk.debug(WAITS, env=env)
    program.wait_for(
        r"paipdb: waiting at train\.py:1 \(worker-1\) until \d\d:\d\d:\d\d UTC; "
        r"attach with: holdfast debug job-7 worker-1\n"
        rf"paipdb: or by its port: nc [\d.]+ {port}; the job's page shows the token\n"
    )
    assert desk.note()["local"] is False
    assert "12345678" not in program.stderr  # more people may read a log than may get inside


def test_without_a_port_a_free_one_on_this_machine_alone(desk: Bench) -> None:
    program = desk.debug(WAITS)
    assert listens_on(program.port()) == {"0100007F"}


def test_a_name_that_the_task_does_not_have(desk: Bench) -> None:
    program = desk.debug(WAITS, env={"DEBUG_PORT_NAME": "other", "HOLDFAST_PORT_DEBUG": "5555"})
    program.client().prompt()
    assert "this task has no port named other; taking a free one" in program.stderr


@pytest.mark.parametrize("port", ["0", "99999", "x", ""])
def test_a_port_that_is_none(desk: Bench, port: str) -> None:
    assert desk.debug(WAITS, env={"HOLDFAST_PORT_DEBUG": port}).port() > 0


def test_a_number_that_cannot_be(desk: Bench) -> None:
    program = desk.run("import paipdb\npaipdb.settrace(port=99999)\nx = 1\n")
    program.client().prompt()
    assert "port 99999 cannot be had" in program.stderr


def test_a_port_that_is_taken(desk: Bench) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        program = desk.debug(WAITS, env={"HOLDFAST_PORT_DEBUG": str(port)})
        assert program.port() != port
        assert f"paipdb: port {port} cannot be had (Address already in use); taking a free one\n" in program.stderr
        program.client().prompt()


def test_two_processes_of_a_task(desk: Bench) -> None:
    port = reserve_port()
    first = desk.debug(WAITS, env={"HOLDFAST_PORT_DEBUG": str(port)})
    assert first.port() == port
    second = desk.start("-m", "paipdb", "train.py", env={"HOLDFAST_PORT_DEBUG": str(port)})
    assert second.port() != port
    assert len(list(desk.notes.glob("debugger-*.json"))) == 2
    second.client().prompt()
    first.client().prompt()


FORKS = """\
import os, paipdb
paipdb.settrace()
child = os.fork()
if child == 0:
    inside = "child"
    paipdb.settrace()
    os._exit(5)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_a_port_of_its_own(desk: Bench) -> None:
    program = desk.run(FORKS)
    parent = program.client()
    parent.prompt()
    port = program.port()
    parent.send("c")
    assert program.port(2) != port
    child = program.client(2)
    child.prompt()
    assert "'child'" in child.do("p inside")
    child.send("c")
    assert program.ends() == 0
    assert program.stdout == "child ended with 5\n"


def test_a_forked_child_does_not_keep_the_parents_client(desk: Bench) -> None:
    program = desk.run(
        "import os, paipdb, sys\n"
        "paipdb.settrace()\n"
        "if os.fork() == 0:\n"
        "    sys.stdin.readline()\n"
        "    print('child ends', flush=True)\n"
        "    os._exit(0)\n"
        "print('parent ends')\n"
    )
    client = program.client()
    client.prompt()
    client.send("c")
    client.rest()
    program.process.wait(TIMEOUT)
    assert "child ends" not in program.stdout
    assert program.process.stdin
    program.process.stdin.close()
    program.wait_for("child ends", "stdout")


def test_quitting_in_a_worker_ends_the_worker(desk: Bench) -> None:
    program = desk.run(
        "import multiprocessing, paipdb\n"
        "def work():\n    x = 1\n    paipdb.settrace()\n    x = 2\n"
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('fork').Process(target=work)\n"
        "    worker.start()\n    worker.join()\n    print('worker ended with', worker.exitcode)\n"
    )
    client = program.client()
    client.prompt()
    assert len(list(desk.notes.glob("debugger-*.json"))) == 1
    client.send("q")
    assert program.ends() == 0
    assert program.stdout == "worker ended with 2\n"
    assert list(desk.notes.iterdir()) == []


def test_a_connection_that_says_nothing(desk: Bench) -> None:
    program = desk.debug(WAITS)
    silent = Client(program.port())
    silent.wait_for("Token: ")
    program.client().prompt()
    silent.close()
