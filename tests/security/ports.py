"""A job that tries to listen on ports of the server, and looks at the process that holds them."""

from __future__ import annotations

import os
import select
import shlex
import time
from contextlib import suppress
from pathlib import Path

import httpx

from holdfast.listening.holder import find_holder_pid
from tests.e2e.server import TIMEOUT, Server

# One round tries every address with every option; what is won is told, and kept.
TAKE = """
import itertools, os, socket, sys
ports, rounds = [int(word) for word in sys.argv[2:]], int(sys.argv[1])
addresses = [("127.0.0.1", 0), ("0.0.0.0", 0), ("::1", 1), ("::", 0), ("::", 1), ("::ffff:127.0.0.1", 0)]
options = [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)]
kept, done = [], 0
while not rounds or done < rounds:
    for port, (address, v6only), chosen in itertools.product(ports, addresses, options):
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError:
            continue
        try:
            if sock.family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
            for option in chosen:
                sock.setsockopt(socket.SOL_SOCKET, option, 1)
            sock.bind((address, port))
            sock.listen()
            print("TAKEN", address, port, chosen, flush=True)
            kept.append(sock)
        except OSError as error:
            sock.close()
    done += 1
    print("round", done, flush=True)
"""


def taking_job(*ports: int, rounds: int = 0) -> str:
    """`rounds`: 0 goes on until it is stopped."""
    numbers = " ".join(map(str, ports))
    return f"name: taker\ncommand: {_quoted(f'exec python3 -c {shlex.quote(TAKE)} {rounds} {numbers}')}\n"


def _quoted(command: str) -> str:
    return '"' + command.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def run_sleep(server: Server) -> str:
    """A job that runs until it is stopped."""
    job = str(server.submit("name: a\ncommand: echo up; sleep 1000\n")["id"])
    until = time.monotonic() + TIMEOUT
    while "up" not in log_of(server, job):
        assert time.monotonic() < until
        time.sleep(0.02)
    return job


def log_of(server: Server, job_id: str) -> str:
    """Also while the server is down. The end of a task moves it."""
    for place in ("tasks", "logs/*"):
        for path in server.home.glob(f"{place}/{job_id}.*/stdout"):
            with suppress(FileNotFoundError):
                return path.read_text()
    return ""


def wait_for_rounds(server: Server, job_id: str, more: int = 2) -> None:
    """Until the job has tried everything so many times from now on."""
    wanted = log_of(server, job_id).count("round") + more
    until = time.monotonic() + TIMEOUT
    while log_of(server, job_id).count("round") < wanted:
        assert time.monotonic() < until, log_of(server, job_id)[-1000:]
        time.sleep(0.02)


def wait_until_answered_by_holder(server: Server) -> None:
    until = time.monotonic() + TIMEOUT
    while True:
        assert time.monotonic() < until
        try:
            if httpx.get(f"{server.url}/api/v1/version", timeout=TIMEOUT).json()["error"]["code"] == "server_stopped":
                return
        except (httpx.HTTPError, KeyError):
            time.sleep(0.02)


def wait_for_holder(home: Path, other_than: int | None = None) -> int:
    """The process that holds the ports, once there is one and it takes servers in."""
    until = time.monotonic() + TIMEOUT
    while True:
        found = find_holder_pid(home)
        if found is not None and found != other_than and (home / "ports.sock").exists():
            return found
        assert time.monotonic() < until
        time.sleep(0.02)


def wait_until_gone(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], TIMEOUT)[0], f"process {pid} did not end"
    finally:
        os.close(handle)


def ssh_port(server: Server) -> int:
    until = time.monotonic() + TIMEOUT
    while (port := server.get("/status").json()["ssh"]["port"]) is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    return int(port)


def stop_jobs(server: Server) -> None:
    with server.client() as client:
        ids = [job["id"] for job in client.get("/jobs").json()["items"]]
        client.post("/jobs/stop", json={"jobs": ids})
    for job_id in ids:
        server.wait(job_id)
