"""Ports for programs that tests start.

A port that the kernel chose and the test closed again can be taken before the program listens: by an outgoing
connection, or by another test process. These ports are below the ephemeral range (and below the tasks' ports), and stay
reserved until this process ends.
"""

from __future__ import annotations

import random
import socket

FIRST, END = 5000, 15000

_reservations: list[socket.socket] = []


def reserve_port() -> int:
    return reserve_ports(1)[0]


def reserve_ports(count: int) -> list[int]:
    """Return free ports that follow each other."""
    for first in random.sample(range(FIRST, END - count), 1000):
        ports = list(range(first, first + count))
        if all(map(is_free, ports)) and all(map(_reserve, ports)):
            return ports
    raise AssertionError("no free ports")


def is_free(port: int) -> bool:
    """Return whether no program listens on it, at any address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _reserve(port: int) -> bool:
    """Take the port's name among all processes. The kernel releases it when this process ends."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0holdfast-test-port-{port}")
    except OSError:
        name.close()
        return False
    _reservations.append(name)
    return True
