"""Tasks of a job that reach each other by ssh: a real server, the real client, no sshd."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Isolation
from tests.engines.archives import config, docker_archive, entry, link, shell_entries, tar
from tests.engines.scenarios import need
from tests.free_ports import reserve_port

from .server import TIMEOUT, Server

PROGRAMS = (
    "ssh", "scp", "id", "mkdir", "mv", "rm", "cp", "sed", "grep", "cat", "readlink", "sleep", "touch", "date", "cmp",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not shutil.which("ssh") or not shutil.which("scp"), reason="openssh-client is missing")


@contextmanager
def serving(home: Path, **settings: str) -> Iterator[Server]:
    need(Isolation.FULL, Isolation.READ_ONLY)
    server = Server(home, **{"HOLDFAST_SSH_PORT": "0", "HOLDFAST_NODE_CPUS": "8", **settings})
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("between") / "home") as server:
        yield server


def log_of(server: Server, job: dict[str, Any], task: str) -> str:
    reply = server.get(f"/jobs/{job['id']}/log", task=task)
    assert reply.status_code == 200, reply.text
    return reply.text


def run(server: Server, text: str, task: str, **query: str) -> list[str]:
    """What a task of a job that succeeds says."""
    job = server.submit(text, **query)
    end = server.wait(job["id"])
    said = log_of(server, job, task)
    assert end["state"] == "Succeeded", (end["message"], said, server.log()[-3000:])
    return said.splitlines()


TWO_ROLES = """
name: two-roles
roles:
  lead:
    commands:
      - until ssh worker-1 true 2>/dev/null; do sleep 0.1; done
      - echo "names $(ssh worker-0 hostname) $(ssh worker-1 hostname) $(ssh $HOLDFAST_TASK hostname)"
      - echo "is $(ssh worker-1 'id -u; echo $HOLDFAST_TASK')"
      - head -c 3000000 /dev/urandom >sent
      - scp -q sent worker-1:/tmp/there
      - scp -q worker-1:/tmp/there back
      - cmp sent back && echo same
      - ssh worker-1 'exit 7' || echo "status $?"
      - stat -c '%a' /run/holdfast/ssh/id_ed25519
      - if env | grep -q PRIVATE; then echo LEAKED; fi
      - for task in worker-0 worker-1; do ssh $task touch /tmp/done || true; done  # they may be gone before they answer
  worker:
    instances: 2
    commands:
      - until [ -e /tmp/done ]; do sleep 0.05; done
"""


def test_one_task_reaches_the_others_by_name(server: Server) -> None:
    said = run(server, TWO_ROLES, "lead-0")
    events = server.get("/jobs/two-roles/events").json()["items"]
    assert [event for event in events if event["kind"] == "entered"] == []  # nobody came from outside
    assert said == ["names worker-0 worker-1 lead-0", f"is {os.getuid()}", "worker-1", "same", "status 7", "600"]


STRANGER = """
name: stranger
roles:
  lead:
    commands:
      - |
        place="-p $(ssh -G worker-0 | sed -n 's/^port //p') -i /run/holdfast/ssh/id_ed25519"
        place="$place -o BatchMode=yes -o UserKnownHostsFile=/run/holdfast/ssh/gateway"
        until ssh $place $HOLDFAST_JOB.worker-0@127.0.0.1 true; do sleep 0.1; done
        for name in {other}.worker-0 {other} admin~other; do
          if ssh $place $name@127.0.0.1 true; then echo BAD; fi
        done
        ssh {other} true || echo nobody
        ssh worker-0 touch /tmp/done || true
  worker:
    commands:
      - until [ -e /tmp/done ]; do sleep 0.05; done
"""


def test_tasks_of_another_job_refuse_it(server: Server) -> None:
    """Even of the same user, and by whatever name."""
    other = server.submit("{name: other, roles: {worker: {instances: 2, commands: ['sleep 600']}}}")
    said = "\n".join(run(server, STRANGER.replace("{other}", other["id"]), "lead-0"))
    assert "BAD" not in said
    assert said.count("Permission denied") == 3, said
    assert "nobody" in said
    with server.client() as client:
        assert client.post(f"/jobs/{other['id']}/stop").status_code < 300
    server.wait(other["id"])


AGAIN = """
name: again
roles:
  lead:
    commands:
      - until ssh worker-0 true 2>/dev/null; do sleep 0.1; done
      - echo first
      - until [ -e /mnt/go/on ]; do sleep 0.05; done
      - until ssh worker-0 true 2>/dev/null; do sleep 0.1; done
      - echo second
      - ssh worker-0 touch /tmp/done || true
    mounts: [{source: GO, target: /mnt/go}]
  worker:
    commands:
      - until [ -e /tmp/done ]; do sleep 0.05; done
"""


@pytest.mark.release
def test_a_restart_of_the_server_changes_nothing(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.mkdir()
    with serving(tmp_path / "home", HOLDFAST_SSH_PORT=str(reserve_port())) as server:
        job = server.submit(AGAIN.replace("GO", str(go)))
        until_said(server, job, "lead-0", "first")
        server.kill()
        server.start()
        (go / "on").touch()
        assert server.wait(job["id"])["state"] == "Succeeded", log_of(server, job, "lead-0")
        assert log_of(server, job, "lead-0") == "first\nsecond\n"


def until_said(server: Server, job: dict[str, Any], task: str, text: str) -> None:
    began = time.monotonic()
    while text not in server.get(f"/jobs/{job['id']}/log", task=task).text:
        assert time.monotonic() - began < TIMEOUT, server.log()[-3000:]
        time.sleep(0.05)


# -- images that have no sshd, and no more than they need


def import_image(server: Server, tmp_path: Path, name: str, *programs: str) -> None:
    paths = [str(shutil.which(name)) for name in programs]
    users = entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    file = tmp_path / "image.tar"
    layer = tar([*shell_entries(*paths), users, link("usr/bin", "../bin")])  # scp names /usr/bin/ssh
    file.write_bytes(docker_archive([layer], config()))
    env = {**os.environ, "HOLDFAST_HOME": str(server.home)}
    command = [sys.executable, "-m", "holdfast", "image", "import", name, str(file)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr


OPENPAI = """
protocolVersion: 2
name: openpai
type: job
prerequisites: [{type: dockerimage, name: image, uri: 'tiny:1'}]
taskRoles:
  Worker_1:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 0}
    commands:
      - |
        if [ $PAI_TASK_INDEX = 0 ]; then
          me=$PAI_CURRENT_TASK_ROLE_NAME-$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX
          other=$PAI_CURRENT_TASK_ROLE_NAME-1
          echo "reached $(ssh $me 'echo $HOLDFAST_TASK') $(ssh $other 'echo $HOLDFAST_TASK of $PAI_JOB_NAME')"
          scp -q /etc/issue $other:/tmp/issue
          scp -q $other:/tmp/issue /tmp/back
          cmp /etc/issue /tmp/back
          ssh $other touch /tmp/done || true
          until [ -e /tmp/done ]; do sleep 0.05; done
        else
          ssh Worker_1-0 touch /tmp/done || true
          until [ -e /tmp/done ]; do sleep 0.05; done
        fi
extras:
  com.microsoft.pai.runtimeplugin:
    - {plugin: ssh, parameters: {jobssh: true, sshbarrier: true}}
"""


@pytest.mark.release
def test_openpais_plugin_works_in_an_image_without_an_sshd(server: Server, tmp_path: Path) -> None:
    import_image(server, tmp_path, "tiny:1", *PROGRAMS)
    said = "\n".join(run(server, OPENPAI, "Worker_1-0"))
    assert "reached Worker_1-0 Worker_1-1 of admin~openpai" in said, said
    assert "SSH barrier passed" in said
    assert "is not in the image. Use the SSH gateway instead." in said


PLAIN = """
protocolVersion: 2
name: plain
type: job
prerequisites: [{type: dockerimage, name: image, uri: host}]
taskRoles:
  Lead_1:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 0}
    commands:
      - until ssh worker-1 true 2>/dev/null; do sleep 0.1; done
      - me=$PAI_CURRENT_TASK_ROLE_NAME-$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX
      - echo "reached $(ssh $me 'echo $HOLDFAST_TASK') $(ssh worker-1 'echo $HOLDFAST_TASK of $PAI_JOB_NAME')"
      - for task in worker-0 worker-1; do ssh $task touch /tmp/done || true; done
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 0}
    commands: ['until [ -e /tmp/done ]; do sleep 0.05; done']
"""


def test_openpais_jobs_need_no_plugin_for_it(server: Server) -> None:
    assert run(server, PLAIN, "Lead_1-0") == ["reached Lead_1-0 worker-1 of admin~plain"]


TINY = """
name: tiny
roles:
  lead:
    image: tiny:1
    commands:
      - until ssh worker-0 true 2>/dev/null; do sleep 0.1; done
      - ssh worker-0 touch /tmp/done || true
  worker:
    image: tiny:1
    commands:
      - until [ -e /tmp/done ]; do sleep 0.05; done
"""


def test_our_own_jobs_need_no_bash_either(server: Server, tmp_path: Path) -> None:
    import_image(server, tmp_path, "own:1", *PROGRAMS)
    assert run(server, TINY.replace("tiny:1", "own:1"), "lead-0") == []


@pytest.mark.release
def test_an_image_without_a_client_is_said_to_have_none(server: Server, tmp_path: Path) -> None:
    import_image(server, tmp_path, "bare:1", *PROGRAMS[2:])
    text = TINY.replace("tiny:1", "bare:1")
    job = server.submit(text.replace("until ssh worker-0 true 2>/dev/null; do sleep 0.1; done", "ssh worker-0"))
    assert server.wait(job["id"])["state"] == "Failed"
    assert log_of(server, job, "lead-0").count("openssh-client is not in the image") == 1


# -- no gateway

ASKS = "{name: asks, roles: {worker: {instances: 2, commands: ['ssh -V']}}}"
SILENT = "{name: silent, roles: {worker: {instances: 2, commands: ['echo hello']}}}"


@pytest.mark.release
def test_a_job_hears_once_that_the_gateway_is_switched_off(tmp_path: Path) -> None:
    with serving(tmp_path / "home", HOLDFAST_SSH_ENABLED="false") as server:
        why = "SSH between the tasks of this job is not available. The SSH gateway is disabled on this server."
        assert run(server, ASKS, "worker-0")[0] == f"[holdfast] {why}"
        assert run(server, SILENT, "worker-0") == ["hello"]


@pytest.mark.release
def test_a_job_hears_that_the_gateways_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serving(tmp_path / "home", HOLDFAST_SSH_PORT=str(port)) as server:
            said = run(server, ASKS, "worker-0")[0]
            assert f"cannot listen on 127.0.0.1:{port}" in said
