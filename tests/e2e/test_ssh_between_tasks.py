"""Tasks of a job that reach each other by ssh: a real server, the real client, no sshd."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Isolation
from tests.engines.playing import need

from .server import Server

pytestmark = pytest.mark.skipif(not shutil.which("ssh") or not shutil.which("scp"), reason="openssh-client is missing")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    need(Isolation.FULL, Isolation.READ_ONLY)
    server = Server(tmp_path / "home", HOLDFAST_SSH_PORT="0", HOLDFAST_NODE_CPUS="8")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def log_of(server: Server, job: dict[str, Any], task: str) -> str:
    reply = server.get(f"/jobs/{job['id']}/log", task=task)
    assert reply.status_code == 200, reply.text
    return reply.text


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
      - for task in worker-0 worker-1; do ssh $task touch /tmp/done; done
  worker:
    instances: 2
    commands:
      - until [ -e /tmp/done ]; do sleep 0.05; done
"""


def test_one_task_reaches_the_others_by_name(server: Server) -> None:
    job = server.submit(TWO_ROLES)
    end = server.wait(job["id"])
    said = log_of(server, job, "lead-0")
    assert end["state"] == "Succeeded", said
    assert said.splitlines() == [
        "names worker-0 worker-1 lead-0", "is 0", "worker-1", "same", "status 7", "600",
    ]  # fmt: skip
