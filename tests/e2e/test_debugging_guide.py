"""The two ways of OpenPAI's debugging guide, as it writes them: real jobs, driven over `nc`."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Isolation
from tests.engines.scenarios import need

from .server import TIMEOUT, Server

pytestmark = [
    pytest.mark.skipif(not shutil.which("nc"), reason="netcat is missing"),
    pytest.mark.skipif(not shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"), reason="no python3 in tasks"),
]

# As in the guide, but for the download: where that would have put the debugger, it lies already.
JOB = """
protocolVersion: 2
name: NAME
type: job
parameters: {epochs: 3}
prerequisites: [{protocolVersion: 2, type: dockerimage, name: image, uri: host}]
taskRoles:
  train:
    instances: 1
    dockerImage: image
    resourcePerInstance:
      gpu: 0
      cpu: 1
      memoryMB: 1024
      ports:
        debug: 1
    commands:
      - |
        cat >train.py <<'END'
        PROGRAM
        END
      - COMMAND
deployments:
  - name: debug
    taskRoles:
      train:
        preCommands:
          - >-
            if [ ! -d /pai_data/debug ]; then mkdir --parents /pai_data/debug; fi
          - ls /pai_data/debug/paipdb/__init__.py
          - touch /pai_data/debug/paipdb.py.1
defaults:
  deployment: debug
"""

FIRST = """\
import sys
epochs = int(sys.argv[1])
loss = 1.0
for epoch in range(epochs):
    loss = loss / 2
print("trained", epochs, loss)
"""
FIRST_COMMAND = (
    "PYTHONPATH=$PYTHONPATH:/pai_data/debug DEBUG_PORT_NAME=debug DEBUG_TIMEOUT=600 "
    "python3 -m paipdb train.py <% $parameters.epochs %>"
)

SECOND = """\
import os
debug_port = int(os.environ["PAI_PORT_LIST_train_0_debug"])
secret = 41
import paipdb; paipdb.settrace(port=debug_port)
secret += 1
print("the answer is", secret)
"""
SECOND_COMMAND = "PYTHONPATH=$PYTHONPATH:/pai_data/debug DEBUG_TIMEOUT=600 python3 train.py"


def job(name: str, program: str, command: str, **variables: str) -> str:
    settings = "".join(f"export {name}={value}; " for name, value in variables.items())
    text = JOB.replace("NAME", name).replace("PROGRAM", program.replace("\n", "\n        "))
    return text.replace("COMMAND", f"{settings}{command}")


class Netcat:
    """`nc HOST PORT`, as somebody sits at it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._read = b""

    def until(self, text: str) -> str:
        """All that has come, up to and with this."""
        end = time.monotonic() + TIMEOUT
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while text.encode() not in self._read:
                assert selector.select(max(0.0, end - time.monotonic())), f"waited for {text!r}: {self._read!r}"
                data = os.read(self._process.stdout.fileno(), 4096)
                assert data, f"it hung up before {text!r}: {self._read!r}"
                self._read += data
        found, _, self._read = self._read.partition(text.encode())
        return found.decode() + text

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def ask(self, line: str) -> str:
        """The answer, up to the next prompt."""
        self.type(line)
        return self.until("(Pdb) ").removesuffix("(Pdb) ").strip()


@contextmanager
def netcat(host: str, port: int) -> Iterator[Netcat]:
    process = subprocess.Popen(["nc", host, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Netcat(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need(Isolation.FULL, Isolation.READ_ONLY)
    server = Server(tmp_path_factory.mktemp("guide") / "home", HOLDFAST_SSH_PORT="0")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def place_of(server: Server, job: dict[str, Any]) -> tuple[str, int]:
    """Host and port of the debugger, from where the guide finds them."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with server.client() as client:
        reply = client.get(f"{server.url}/rest-server/api/v1/user/admin/jobs/{job['name']}", headers=headers)
    task = reply.json()["taskRoles"]["train"]["taskStatuses"][0]
    return task["containerIp"], int(task["containerPorts"]["debug"])


def waiting(server: Server, job: dict[str, Any]) -> dict[str, Any]:
    """The debugger that waits, as the platform knows it."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        detail = server.get(f"/jobs/{job['id']}").json()
        assert detail["state"] in ("Pending", "Preparing", "Running"), (detail["message"], log_of(server, job))
        found = [each for each in detail["debuggers"] if each["waits"] and not each["attached"]]
        if found:
            return dict(found[0])
        time.sleep(0.05)
    raise AssertionError(log_of(server, job))


def log_of(server: Server, job: dict[str, Any]) -> str:
    return server.get(f"/jobs/{job['id']}/log").text


PLAIN = """
name: plain
env: {PYTHONPATH: /opt/mine}
commands:
  - echo $PYTHONPATH
  - cd /tmp && python3 -c 'import paipdb; print(paipdb.__file__)'
"""


def test_our_own_jobs_have_the_debugger_as_well(server: Server) -> None:
    submitted = server.submit(PLAIN)
    assert server.wait(submitted["id"])["state"] == "Succeeded", log_of(server, submitted)
    place = "/run/holdfast/lib"
    assert log_of(server, submitted).splitlines() == [f"/opt/mine:{place}", f"{place}/paipdb/__init__.py"]


def test_the_first_way_from_the_beginning(server: Server) -> None:
    submitted = server.submit(job("first", FIRST, FIRST_COMMAND))
    debugger = waiting(server, submitted)
    host, port = place_of(server, submitted)
    assert (debugger["task"], debugger["why"], debugger["port"]) == ("train-0", "start", port)
    with netcat(host, port) as client:
        client.until("Token: ")
        client.type("wrong")
        client.until("That is not the token.")
        client.until("Token: ")
        client.type(debugger["token"])
        assert "train.py(1)" in client.until("(Pdb) ")
        client.ask("b 6")
        assert "train.py(6)" in client.ask("c")
        assert client.ask("p loss") == "0.125"
    waiting(server, submitted)  # it takes a moment until it is known that one has left
    with netcat(host, port) as client:  # whoever leaves can come back
        client.until("Token: ")
        client.type(debugger["token"])
        client.until("(Pdb) ")
        client.ask("!loss = 42")
        client.type("c")
        assert server.wait(submitted["id"])["state"] == "Succeeded", log_of(server, submitted)
    said = log_of(server, submitted)
    assert f"paipdb is running on {host}:{port}" in said
    assert "trained 3 42" in said


@pytest.mark.parametrize("asked", [True, False], ids=["token", "no token"])
def test_the_second_way_from_a_breakpoint(server: Server, asked: bool) -> None:
    variables = {} if asked else {"DEBUG_TOKEN": "off"}
    submitted = server.submit(job(f"second-{asked}".lower(), SECOND, SECOND_COMMAND, **variables))
    debugger = waiting(server, submitted)
    host, port = place_of(server, submitted)
    assert (Path(debugger["file"]).name, debugger["why"], debugger["port"]) == ("train.py", "breakpoint", port)
    assert bool(debugger["token"]) == asked
    with netcat(host, port) as client:
        if asked:
            client.until("Token: ")
            client.type(debugger["token"])
        client.until("(Pdb) ")
        assert client.ask("p secret") == "41"
        client.type("c")
        assert server.wait(submitted["id"])["state"] == "Succeeded", log_of(server, submitted)
    assert "the answer is 42" in log_of(server, submitted)


def test_q_ends_the_job_as_one_that_failed(server: Server) -> None:
    submitted = server.submit(job("quits", FIRST, FIRST_COMMAND, DEBUG_TOKEN="off"))
    waiting(server, submitted)
    with netcat(*place_of(server, submitted)) as client:
        client.until("(Pdb) ")
        client.type("q")
        end = server.wait(submitted["id"])
    assert (end["state"], end["exit_code"]) == ("Failed", 2)
