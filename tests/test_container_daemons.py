"""The daemons of the tests leave the machine's network alone, and leave nothing behind."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.container_daemons import IMAGE, ContainerDaemon, Dockerd, PodmanService, run_daemon


def read_network(pid: int | str = "thread-self") -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def run_container(daemon: ContainerDaemon) -> int:
    """Return the network of a container that shares the daemon's."""
    body = {"Image": IMAGE, "Cmd": ["sleep", "600"], "HostConfig": {"NetworkMode": "host"}}
    with daemon.client() as client:
        id = client.post("/containers/create", json=body).raise_for_status().json()["Id"]
        client.post(f"/containers/{id}/start").raise_for_status()
        return read_network(client.get(f"/containers/{id}/json").json()["State"]["Pid"])


@pytest.mark.parametrize("kind", [Dockerd, pytest.param(PodmanService, marks=pytest.mark.release)])
def test_a_daemon_has_a_network_of_its_own(kind: type[ContainerDaemon]) -> None:
    ours = read_network()
    with run_daemon(kind) as daemon:
        with daemon.join_network():
            network = read_network()
            in_threads: list[int] = []
            thread = threading.Thread(target=lambda: in_threads.append(read_network()))
            thread.start()
            thread.join()
            assert [name for _, name in socket.if_nameindex()] == ["lo"]
            with socket.create_server(("127.0.0.1", 0)) as server:  # loopback is up
                socket.create_connection(server.getsockname()).close()
        assert in_threads == [network]
        assert network != ours == read_network()
        assert run_container(daemon) == network
        daemon.kill()
        daemon.start()
        assert run_container(daemon) == network
        folder = daemon.folder
    assert not folder.exists()
    assert network not in list_networks()


def list_networks() -> set[int]:
    """Return the networks of all processes."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            found.add(read_network(entry.name))
    return found
