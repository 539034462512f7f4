"""Getting into tasks of a real server, with the real clients of OpenSSH."""

from __future__ import annotations

import filecmp
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .server import TIMEOUT, Server

JOB = "name: train\ncommand: sleep 1000\n"
BIG = 100 * 1024 * 1024


class Client:
    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        folder.mkdir()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id"], check=True)
        with server.client() as client:
            public = (folder / "id.pub").read_text()
            assert client.post("/me/keys", json={"value": public}).status_code == 201

    def options(self) -> list[str]:
        known = f"UserKnownHostsFile={self.folder / 'known_hosts'}"
        given = [f"IdentityFile={self.folder / 'id'}", "IdentityAgent=none", known, "BatchMode=yes", "LogLevel=ERROR"]
        return [
            "-F",
            "none",
            *(word for each in given for word in ("-o", each)),
            "-o",
            "StrictHostKeyChecking=accept-new",
        ]

    def run(self, program: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        whole = [program, *self.options(), *words]
        return subprocess.run(whole, input=given, capture_output=True, timeout=2 * TIMEOUT, check=False)

    def ssh(self, line: dict[str, Any], command: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """The line as the job shows it."""
        program, *words = line["command"].split(" ")
        return self.run(program, *words, command, given=given)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home")
    running.start()
    try:
        yield running
    finally:
        _stop_jobs(running)
        running.stop()


def _stop_jobs(server: Server) -> None:
    with server.client() as client:
        ids = [job["id"] for job in client.get("/jobs").json()["items"]]
        client.post("/jobs/stop", json={"jobs": ids})
    for id in ids:
        server.wait(id)


def line_of(server: Server, job_id: str) -> dict[str, Any]:
    """Once the job runs, and the gateway listens."""
    began = time.monotonic()
    while time.monotonic() - began < TIMEOUT:
        found = server.get(f"/jobs/{job_id}").json()["ssh"]
        if found:
            return dict(found[0])
        time.sleep(0.05)
    raise AssertionError(server.get(f"/jobs/{job_id}/ssh").text)


@pytest.mark.release
def test_a_hundred_megabytes_each_way(server: Server, tmp_path: Path) -> None:
    client = Client(tmp_path / "client", server)
    line = line_of(server, server.submit(JOB)["id"])
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(os.urandom(BIG))
    place = f"{line['user']}@{line['host']}:big"
    sent = client.run("scp", "-P", str(line["port"]), str(source), place)
    assert sent.returncode == 0, sent.stderr
    assert client.ssh(line, "stat -c %s big").stdout == f"{BIG}\n".encode()
    fetched = client.run("scp", "-P", str(line["port"]), place, str(back))
    assert fetched.returncode == 0, fetched.stderr
    assert filecmp.cmp(source, back, shallow=False)


@pytest.mark.release
def test_the_old_copy_protocol_where_the_image_has_it(server: Server, tmp_path: Path) -> None:
    client = Client(tmp_path / "client", server)
    line = line_of(server, server.submit(JOB)["id"])
    (tmp_path / "source").write_text("contents")
    sent = client.run("scp", "-O", "-P", str(line["port"]), str(tmp_path / "source"), f"{line['user']}@127.0.0.1:there")
    assert sent.returncode == 0, sent.stderr
    assert client.ssh(line, "cat there").stdout == b"contents"


@pytest.mark.release
def test_a_killed_server_is_the_same_to_its_clients_when_it_is_back(server: Server, tmp_path: Path) -> None:
    client = Client(tmp_path / "client", server)
    job = server.submit(JOB)["id"]
    line = line_of(server, job)
    assert client.ssh(line, "echo before > mark").returncode == 0
    host_key = server.get(f"/jobs/{job}/ssh").json()["host_key"]
    server.kill()
    server.settings["HOLDFAST_SSH_PORT"] = str(line["port"])
    server.start()
    assert line_of(server, job)["command"] == line["command"]
    assert server.get(f"/jobs/{job}/ssh").json()["host_key"] == host_key
    ran = client.ssh(line, "cat mark")  # to the host key that it knows
    assert (ran.returncode, ran.stdout) == (0, b"before\n"), ran.stderr


@pytest.mark.release
def test_a_server_that_stops_sends_its_visitors_away_and_leaves_the_task(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.start()
    try:
        client = Client(tmp_path / "client", server)
        job = server.submit(JOB)["id"]
        line = line_of(server, job)
        words = ["ssh", *client.options(), *line["command"].split(" ")[1:], "echo here; sleep 1000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as visit:
            assert visit.stdout is not None
            assert visit.stdout.readline() == b"here\n"
            server.stop()
            assert visit.wait(TIMEOUT) == 255
        server.start()
        assert server.get(f"/jobs/{job}").json()["state"] == "Running"
    finally:
        _stop_jobs(server)
        server.stop()


@pytest.mark.release
def test_a_port_that_is_taken_costs_the_gateway_alone(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = Server(tmp_path / "home", HOLDFAST_SSH_PORT=str(port))
        server.start()
        try:
            began = time.monotonic()
            while not (told := server.get("/status").json()["ssh"])["trouble"]:
                assert time.monotonic() - began < TIMEOUT
                time.sleep(0.02)
            assert f"cannot listen on 127.0.0.1:{port}" in told["trouble"]
            assert told["port"] is None
            assert "the ssh gateway is disabled" in server.log()
            assert server.wait(server.submit("name: quick\ncommand: exit 0\n")["id"])["state"] == "Succeeded"
        finally:
            server.stop()


@pytest.mark.release
def test_switched_off_it_does_not_listen(tmp_path: Path) -> None:
    server = Server(tmp_path / "home", HOLDFAST_SSH_ENABLED="false")
    server.start()
    try:
        told = server.get("/status").json()["ssh"]
        assert (told["enabled"], told["port"], told["trouble"]) == (False, None, None)
    finally:
        server.stop()
