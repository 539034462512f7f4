"""Ports that processes listen on, from /proc. Blocking: call it from a thread."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from holdfast.engines.embedded.metrics.process_metrics import iter_descriptor_targets, parse_socket_inode
from holdfast.tcp_listeners import list_tcp_listeners

_EPHEMERAL_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def find_listening_ports(pids: Iterable[int]) -> set[int]:
    """Return the ports of processes in this network namespace; inaccessible processes are skipped."""
    ports = {each.inode: each.port for each in list_tcp_listeners()}
    found: set[int] = set()
    for pid in pids if ports else ():
        with suppress(OSError):
            inodes = map(parse_socket_inode, iter_descriptor_targets([pid]))
            found.update(ports[inode] for inode in inodes if inode in ports)
    return found


def is_ephemeral_port(port: int) -> bool:
    """Whether the port is in the ephemeral range: the program let the kernel choose it."""
    try:
        first, last = map(int, _EPHEMERAL_RANGE_FILE.read_text().split())
    except (OSError, ValueError):
        first, last = 32768, 60999
    return first <= port <= last
