"""A server with several users, restarted where the sandbox cannot be made, runs nobody's job until it can be again."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.server import TIMEOUT, Server
from tests.engines.ordinary import ORDINARY, only_root_can_become_another
from tests.engines.test_modes import WITHOUT_NAMESPACES

from .member import PASSWORD, Member, look_around


def check_blocked(server: Server, member: Member, job_id: str) -> None:
    job = member.call("GET", f"/jobs/{job_id}").json()
    assert job["state"] == "Pending"
    assert any("Jobs stay pending" in reason for reason in job["waiting"]), job["waiting"]
    health = httpx.get(f"{server.url}/api/v1/health", timeout=TIMEOUT).json()
    assert health["status"] == "degraded"
    assert [each["kind"] for each in health["conditions"] if each["blocks_starts"]]
    assert not any(each["detail"] for each in health["conditions"])  # without login: no word of the machine
    status = server.get("/status").json()
    assert any("Jobs stay pending" in each["message"] and each["hint"] for each in status["conditions"])
    metrics = httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {server.token}"}, timeout=TIMEOUT)
    assert "holdfast_well 0.0" in metrics.text
    assert 'holdfast_condition{kind="sandbox"} 1.0' in metrics.text
    why = member.call("GET", f"/jobs/{job_id}/why").json()
    assert [each["kind"] for each in why["waiting"]["blockers"]] == ["platform"]


@pytest.fixture
def ordinary_server() -> Iterator[Server]:
    base = Path(tempfile.mkdtemp(prefix="holdfast-tests-"))
    os.chown(base, ORDINARY, ORDINARY)
    (base / "home").mkdir()
    os.chown(base / "home", ORDINARY, ORDINARY)
    server = Server(base / "home", HOME=str(base), HOLDFAST_SSH_ENABLED="false")
    server.user = ORDINARY
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(base, ignore_errors=True)


@pytest.mark.release
@only_root_can_become_another
@pytest.mark.skipif(not shutil.which("setpriv") or not shutil.which("unshare"), reason="util-linux is missing")
def test_a_server_whose_namespaces_are_gone_holds_every_job(ordinary_server: Server) -> None:
    server = ordinary_server
    server.start()
    if server.get("/status").json()["engine"]["isolation"] == "none":
        pytest.skip("ordinary users have no sandbox here")
    ann = Member(server, "ann")
    before = ann.submit(look_around(server.home))
    server.wait(before)
    assert "READ-THE-KEY" not in ann.log(before)
    server.stop()
    server.prefix = ["unshare", "--user", "--map-root-user", "sh", "-c", WITHOUT_NAMESPACES, "sh"]
    server.start()
    job = ann.submit(look_around(server.home))
    check_blocked(server, ann, job)
    with server.client() as client:
        refused = client.post("/users", json={"name": "bob", "password": PASSWORD})
    assert refused.status_code == 409
    server.stop()
    server.prefix = []
    server.start()
    assert server.wait(job)["state"] == "Succeeded"
    assert "READ-THE-KEY" not in ann.log(job)
    assert "Seccomp:\t2" in ann.log(job)
