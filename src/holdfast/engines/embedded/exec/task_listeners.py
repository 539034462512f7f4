"""Finds out which listening sockets of the machine belong to a task. Blocking: call it from a thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from holdfast.tcp_listeners import TcpListener

from ..metrics.process_metrics import TooManyDescriptors, iter_descriptor_targets, parse_socket_inode
from ..processes import is_in_pid_namespace, list_all_pids

MAX_OPEN_FILES = 200_000  # of one task, that are checked
_WILDCARD_HOSTS = {"0.0.0.0": ("127.0.0.1",), "::": ("::1", "127.0.0.1")}


def list_listener_hosts(listeners: Sequence[TcpListener], pids: Iterable[int]) -> list[str]:
    """Return the addresses of the listeners that one of these processes has open. Each is the listener's own address:
    another program may listen on the same port of another address."""
    wanted = {each.inode: each for each in listeners}
    found: dict[str, None] = {}
    for pid in pids:
        with suppress(TooManyDescriptors, PermissionError):
            for opened in iter_descriptor_targets([pid], MAX_OPEN_FILES):
                listener = wanted.get(parse_socket_inode(opened) or 0)
                if listener is not None:
                    found.update(dict.fromkeys(_list_connect_hosts(listener, listeners)))
    return list(found)


def _list_connect_hosts(listener: TcpListener, listeners: Sequence[TcpListener]) -> list[str]:
    """Of a wildcard listener, return the loopback addresses without a listener of their own."""
    others = {each.address for each in listeners if each.inode != listener.inode}
    hosts = _WILDCARD_HOSTS.get(listener.address)
    if hosts is None:
        return [listener.address]
    return [host for host in hosts if host not in others and not (host == "127.0.0.1" and "0.0.0.0" in others)]


def list_namespace_pids(namespace: int) -> list[int]:
    return [pid for pid in list_all_pids() if is_in_pid_namespace(pid, namespace)]
