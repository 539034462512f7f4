"""Which listening sockets of the machine are a task's own. Blocking: call it from a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from holdfast.tcp_listeners import TcpListener

from ..metrics.process_metrics import TooMany, open_files, socket_number
from ..processes import in_namespace

MAX_OPEN_FILES = 200_000  # of one task, that are looked at
_ALL_ADDRESSES = {"0.0.0.0": ("127.0.0.1",), "::": ("::1", "127.0.0.1")}


def own_hosts(listeners: Sequence[TcpListener], pids: Iterable[int]) -> list[str]:
    """The addresses to connect to for those that one of these processes has open. Each is the listener's own address:
    another program may listen on the same port of another one."""
    wanted = {each.inode: each for each in listeners}
    found: dict[str, None] = {}
    for pid in pids:
        with suppress(TooMany, PermissionError):
            for opened in open_files([pid], MAX_OPEN_FILES):
                listener = wanted.get(socket_number(opened) or 0)
                if listener is not None:
                    found.update(dict.fromkeys(_hosts(listener, listeners)))
    return list(found)


def _hosts(listener: TcpListener, listeners: Sequence[TcpListener]) -> list[str]:
    """For one on all addresses: those loopback addresses where no other socket listens by itself."""
    others = {each.address for each in listeners if each.inode != listener.inode}
    hosts = _ALL_ADDRESSES.get(listener.address)
    if hosts is None:
        return [listener.address]
    return [host for host in hosts if host not in others and not (host == "127.0.0.1" and "0.0.0.0" in others)]


def list_namespace_pids(namespace: int) -> list[int]:
    """All processes of a PID namespace."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and in_namespace(int(name), namespace)]
