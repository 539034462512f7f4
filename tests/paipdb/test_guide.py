"""OpenPAI's guide to debugging, with a real server and the real netcat: both of its ways, but for the download."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.server import PATIENCE, Server
from tests.openpai.place import Pai, place

pytestmark = pytest.mark.skipif(not shutil.which("nc"), reason="netcat is not installed")

JOB = """\
protocolVersion: 2
name: {name}
type: job
jobRetryCount: 0
prerequisites:
  - {{type: dockerimage, name: image, uri: openpai/standard}}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 512, gpu: 0, ports: {{debug: 1}}}}
    commands:
      - |-
        cat > train.py << EOF
        {script}
        EOF
      - {command}
defaults: {{deployment: debug}}
deployments:
  - name: debug
    taskRoles:
      worker:
        preCommands:
          - mkdir -p /pai_data/debug
          - export PYTHONPATH=$PYTHONPATH:/pai_data/debug
          - export DEBUG_PORT_NAME=debug DEBUG_TIMEOUT=60
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with place(tmp_path_factory.mktemp("guide") / "home", HOLDFAST_IMAGES_UNKNOWN="host") as running:
        yield running


@pytest.fixture(scope="module")
def ann(server: Server) -> Iterator[Pai]:
    pai = Pai(server)
    yield pai
    pai.http.close()


def submit(ann: Pai, name: str, script: str, command: str) -> None:
    ann.submit(JOB.format(name=name, script="\n        ".join(script.splitlines()), command=command))


def task(ann: Pai, name: str) -> dict[str, Any]:
    return dict(ann.job(name)["taskRoles"]["worker"]["taskStatuses"][0])


def waiting(server: Server, ann: Pai, name: str) -> tuple[str, str, str]:
    """Host, port and token, once the program waits: the first two from its log, the token from the job's page."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        log = ann.log(name, "worker") if task(ann, name)["taskState"] == "RUNNING" else ""
        found = re.search(r"nc (\S+) (\d+);", log)
        debuggers = described(server, name)["debuggers"]
        if found and debuggers:
            return found[1], found[2], str(debuggers[0]["token"])
        assert ann.job(name)["jobStatus"]["state"] in ("WAITING", "RUNNING"), ann.log(name, "worker")
        time.sleep(0.1)
    raise AssertionError(ann.log(name, "worker"))


def described(server: Server, name: str) -> dict[str, Any]:
    (job,) = [each for each in server.get("/jobs").json()["items"] if each["name"] == name]
    return dict(server.get(f"/jobs/{job['id']}").json())


def netcat(host: str, port: str, *lines: str) -> str:
    typed = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        ["nc", "-N", host, port], input=typed, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout


def test_a_program_run_by_the_debugger(server: Server, ann: Pai) -> None:
    script = "import sys\nprint('epochs', sys.argv[1])\nloss = 1\nloss = loss / 2\nprint('loss', loss)"
    submit(ann, "guide_one", script, "python3 -m paipdb train.py 3")
    host, port, token = waiting(server, ann, "guide_one")
    assert (host, [port]) == (task(ann, "guide_one")["containerIp"], ports_of(ann, "guide_one"))
    told = netcat(host, port, token, "b 5", "c", "p loss", "loss = 7", "c")
    assert "train.py(1)<module>()" in told
    assert "(Pdb) 0.5\n" in told
    assert told.endswith("The program finished.\n")
    assert ann.end("guide_one")["jobStatus"]["state"] == "SUCCEEDED"
    log = ann.log("guide_one", "worker")
    assert "epochs 3\n" in log
    assert "loss 7\n" in log
    assert f"paipdb is running on {host}:{port}\n" in log


def test_a_breakpoint_in_the_program(server: Server, ann: Pai) -> None:
    port = "int(os.environ['PAI_CONTAINER_HOST_debug_PORT_LIST'])"
    script = f"import os, paipdb\nloss = 1\npaipdb.settrace(port={port})\nloss += 1"
    submit(ann, "guide_two", script, "python3 train.py")
    host, port, token = waiting(server, ann, "guide_two")
    assert [port] == ports_of(ann, "guide_two")
    assert "(Pdb) 1\n" in netcat(host, port, token, "p loss", "c")
    assert ann.end("guide_two")["jobStatus"]["state"] == "SUCCEEDED"


def test_quitting_fails_the_job(server: Server, ann: Pai) -> None:
    submit(ann, "guide_quit", "print('never')", "python3 -m paipdb train.py")
    host, port, token = waiting(server, ann, "guide_quit")
    netcat(host, port, token, "q")
    ended = ann.end("guide_quit")
    assert ended["jobStatus"]["state"] == "FAILED"
    assert "never" not in ann.log("guide_quit", "worker").replace("print('never')", "")


def test_the_platform_knows_and_attaches(server: Server, ann: Pai) -> None:
    submit(ann, "guide_three", "x = 41\nx += 1\nprint(x)", "python3 -m paipdb train.py")
    waiting(server, ann, "guide_three")
    job = described(server, "guide_three")
    (debugger,) = job["debuggers"]
    assert debugger["file"].endswith("/train.py")
    assert (debugger["line"], debugger["why"], debugger["waits"], debugger["attached"]) == (1, "start", True, False)
    attach = [sys.executable, "-m", "holdfast", "debug", job["id"]]
    env = {**os.environ, "HOLDFAST_HOME": str(server.home)}
    done = subprocess.run(
        attach, input="n\np x + 1\nc\n", env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert "42\n" in done.stdout, done
    assert "Token" not in done.stdout
    assert ann.end("guide_three")["jobStatus"]["state"] == "SUCCEEDED"


def ports_of(ann: Pai, name: str) -> list[str]:
    """As OpenPAI's portal shows them."""
    return [str(task(ann, name)["containerPorts"]["debug"])]
