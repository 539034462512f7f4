"""A job tries to listen on the server's ports, on whichever address is left free, while the server runs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.server import TIMEOUT, Server
from tests.e2e.test_ssh import Client, line_of
from tests.free_ports import is_free, reserve_port, reserve_ports

from .ports import log_of, ssh_port, stop_jobs, taking_job

needs_ipv6 = pytest.mark.skipif(not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists(), reason="needs IPv6")
needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")


@pytest.fixture(params=["127.0.0.1", "0.0.0.0", "::"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home", HOLDFAST_SERVER_HOST=request.param, HOLDFAST_SSH_HOST=request.param)
    running.start()
    try:
        yield running
    finally:
        stop_jobs(running)
        running.stop()


@pytest.mark.release_after(1)
def test_a_job_gets_no_address_of_the_servers_ports(server: Server) -> None:
    job = server.submit(taking_job(server.port, ssh_port(server), rounds=2))
    assert server.wait(job["id"])["state"] == "Succeeded"
    log = log_of(server, job["id"])
    assert "round 2" in log
    assert "TAKEN" not in log


@pytest.mark.release_after(1)
@needs_ipv6
def test_both_loopback_addresses_are_the_servers(server: Server) -> None:
    for host in ("127.0.0.1", "[::1]", "localhost"):
        assert httpx.get(f"http://{host}:{server.port}/api/v1/version", timeout=TIMEOUT).json()["name"] == "holdfast"
    for address in ("127.0.0.1", "::1"):
        with socket.create_connection((address, ssh_port(server)), TIMEOUT) as connection:
            assert connection.recv(100).startswith(b"SSH-2.0-Holdfast")


@pytest.mark.release
@needs_ssh
@pytest.mark.parametrize("server", ["127.0.0.1"], indirect=True)
def test_the_gateway_listens_on_no_port_of_the_server_for_a_client(server: Server, tmp_path: Path) -> None:
    client = Client(tmp_path / "client", server)
    line = line_of(server, server.submit("name: train\ncommand: sleep 1000\n")["id"])
    for host in ("127.0.0.1", "localhost", "::1", "[::1]", "*", "0.0.0.0", "[::]"):
        for port in (server.port, ssh_port(server), 80):
            forward = ["-o", "ExitOnForwardFailure=yes", "-R", f"{host}:{port}:127.0.0.1:9"]
            ran = client.run("ssh", *forward, *line["command"].split(" ")[1:], "echo open")
            assert ran.returncode == 255, (host, port, ran)
            assert b"open" not in ran.stdout


@pytest.mark.release
@pytest.mark.parametrize("server", ["127.0.0.1"], indirect=True)
def test_ports_of_the_server_are_given_to_no_task(tmp_path: Path, server: Server) -> None:
    """The range holds four ports, two of which are the server's."""
    server.stop()
    first = server.port = reserve_ports(4)[0]
    server.url = f"http://127.0.0.1:{first}"
    server.settings |= {
        "HOLDFAST_SSH_PORT": str(first + 2),
        "HOLDFAST_NODE_PORT_START": str(first),
        "HOLDFAST_NODE_PORT_END": str(first + 4),
    }
    server.start()
    given = set()
    for _ in range(4):
        job = server.submit("name: a\ncommand: echo $HOLDFAST_PORT_A\nroles:\n  main:\n    ports: {a: 1}\n")
        assert server.wait(job["id"])["state"] == "Succeeded"
        given.add(int(log_of(server, job["id"])))
    assert given <= {first + 1, first + 3}


@pytest.mark.release
@pytest.mark.parametrize("server", ["127.0.0.1"], indirect=True)
def test_what_has_the_port_is_named(server: Server, tmp_path: Path) -> None:
    port = reserve_port()
    job = server.submit(
        "name: squatter\n"
        f"command: python3 -c 'import socket, time; s = socket.create_server((\"\", {port})); time.sleep(1000)'\n"
    )
    while is_free(port):
        pass
    server.stop()
    env = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    env |= {"HOLDFAST_HOME": str(server.home), "HOLDFAST_SSH_PORT": "0"}
    words = [sys.executable, "-m", "holdfast", "up", "--port", str(port)]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert ran.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use by process" in ran.stderr
    assert f"task main-0 of job {job['id']}" in ran.stderr
    assert "kill " in ran.stderr
    server.start()
