"""A job waits for the server to go down, to listen on its ports in its place."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.server import TIMEOUT, Server
from tests.free_ports import reserve_port

from .ports import (
    log_of,
    run_sleep,
    ssh_port,
    stop_jobs,
    taking_job,
    wait_for_holder,
    wait_for_rounds,
    wait_until_answered_by_holder,
    wait_until_gone,
)

pytestmark = pytest.mark.release


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home")
    running.start()
    try:
        yield running
    finally:
        if running.process is None or running.process.poll() is not None:
            running.start()
        stop_jobs(running)
        running.stop()


def test_a_job_does_not_get_the_ports_of_a_server_that_is_down(server: Server) -> None:
    port = ssh_port(server)
    job = server.submit(taking_job(server.port, port))["id"]
    wait_for_rounds(server, job)
    holder = wait_for_holder(server.home)
    for end in (server.kill, server.stop, server.kill):
        end()
        wait_until_answered_by_holder(server)
        wait_for_rounds(server, job)
        server.start()
        assert server.get(f"/jobs/{job}").json()["state"] == "Running"
        assert ssh_port(server) == port  # 0 in the settings: the port that is held
    assert wait_for_holder(server.home) == holder
    assert "TAKEN" not in log_of(server, job)


def test_clients_of_a_server_that_is_down_are_answered_at_once(server: Server) -> None:
    run_sleep(server)
    port = ssh_port(server)
    wait_for_holder(server.home)
    server.kill()
    wait_until_answered_by_holder(server)
    for _ in range(50):
        assert httpx.get(f"{server.url}/login", timeout=TIMEOUT).status_code == 503
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        assert connection.recv(100) == b""


def test_a_holder_that_was_killed_is_replaced(server: Server) -> None:
    job = server.submit(taking_job(server.port))["id"]
    wait_for_rounds(server, job)
    first = wait_for_holder(server.home)
    os.kill(first, signal.SIGKILL)
    second = wait_for_holder(server.home, other_than=first)
    server.kill()
    wait_until_answered_by_holder(server)
    wait_for_rounds(server, job)
    assert "TAKEN" not in log_of(server, job)
    server.start()
    assert wait_for_holder(server.home) == second


def test_the_holder_ends_with_the_last_task(server: Server) -> None:
    job = run_sleep(server)
    holder = wait_for_holder(server.home)
    server.kill()
    wait_until_answered_by_holder(server)
    claim = next((server.home / "tasks").glob(f"{job}.*/claim")).read_text()
    runner = next(int(line.split()[1]) for line in claim.splitlines() if line.startswith("run "))
    os.kill(runner, signal.SIGKILL)
    wait_until_gone(holder)
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)


def test_a_server_without_tasks_leaves_nothing_behind(server: Server) -> None:
    holder = wait_for_holder(server.home)
    server.stop()
    wait_until_gone(holder)
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", server.port))


def test_another_address_at_the_next_start_releases_the_old_one(server: Server) -> None:
    run_sleep(server)
    holder = wait_for_holder(server.home)
    server.kill()
    server.settings["HOLDFAST_SERVER_HOST"] = "0.0.0.0"
    server.start()  # the same port
    old = server.port
    server.stop()
    server.port = reserve_port()
    server.url = f"http://127.0.0.1:{server.port}"
    server.start()
    assert wait_for_holder(server.home) == holder
    with socket.create_server(("127.0.0.1", old)):
        pass


def test_two_servers_hold_their_own_ports(server: Server, tmp_path: Path) -> None:
    other = Server(tmp_path / "other")
    other.start()
    try:
        job = other.submit(taking_job(server.port, other.port))["id"]
        wait_for_rounds(other, job)
        assert wait_for_holder(server.home) != wait_for_holder(other.home)
        other.kill()
        wait_until_answered_by_holder(other)
        wait_for_rounds(other, job)
        other.start()
        assert "TAKEN" not in log_of(other, job)
    finally:
        stop_jobs(other)
        other.stop()
