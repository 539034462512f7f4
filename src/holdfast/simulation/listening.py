"""Which ports processes listen on, as the kernel tells. Blocking: call it from a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_LISTENS = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def listening_ports(pids: Iterable[int]) -> set[int]:
    """Of processes that share this machine's network; those that we may not look into are left out."""
    sockets = _sockets()
    found = set()
    for pid in pids if sockets else ():
        found |= {sockets[inode] for inode in _open_sockets(pid) if inode in sockets}
    return found


def is_chosen_by_kernel(port: int) -> bool:
    """A program that lets the kernel choose gets one of these: it asked for no port in particular."""
    try:
        first, last = map(int, _OUTGOING.read_text().split())
    except (OSError, ValueError):
        first, last = 32768, 60999
    return first <= port <= last


def _sockets() -> dict[str, int]:
    """Inode -> port."""
    found = {}
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    found[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return found


def _open_sockets(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - strings are all that is needed
            with suppress(OSError):
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
                if target.startswith("socket:["):
                    yield target[8:-1]
