"""The capacity of this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import Node

from .options import EmbeddedOptions
from .sandbox.gpus import Gpu

MAX_PORT_END = 40000  # exclusive
MIN_PORT_COUNT = 1000


def build_node(options: EmbeddedOptions, gpus: Sequence[Gpu]) -> Node:
    found = tuple(gpu.index for gpu in gpus)
    return Node(
        name=options.node_name,
        cpu=options.cpus if options.cpus is not None else float(len(os.sched_getaffinity(0))),
        memory=options.memory if options.memory is not None else read_memory_size(),
        gpus=found if options.gpus is None else tuple(index for index in options.gpus if index in found),
        port_start=options.port_start,
        port_end=options.port_end or choose_port_end(options.port_start),
        address=options.address or find_local_address(),
        reserved_ports=options.reserved_ports,
    )


def find_local_address() -> str:
    """Return the source address of outgoing packets. Sends nothing."""
    for family, outside in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):  # for documentation
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((outside, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def choose_port_end(start: int, setting: Path = Path("/proc/sys/net/ipv4/ip_local_port_range")) -> int:
    """Return a limit below the ephemeral ports, which outgoing connections may use at any time."""
    last = MAX_PORT_END if start + MIN_PORT_COUNT <= MAX_PORT_END else 65536
    try:
        outgoing = int(setting.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return last
    return min(last, outgoing) if outgoing >= start + MIN_PORT_COUNT else last


def read_memory_size(meminfo: Path = Path("/proc/meminfo"), limits: tuple[Path, ...] = ()) -> int:
    """Return the machine's memory, or the limit of our own cgroup."""
    total = _parse_total_memory(meminfo.read_text())
    for path in limits or _list_memory_limit_files():
        try:
            total = min(total, int(path.read_text()))
        except (OSError, ValueError):
            continue  # "max", or no such file
    return total


def _parse_total_memory(text: str) -> int:
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise ValueError(msg("no MemTotal in /proc/meminfo"))


def _list_memory_limit_files() -> tuple[Path, ...]:
    """Return the limits that may apply to us: in a container its own cgroup is the root of the mount."""
    files = [Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            files.append(Path(f"/sys/fs/cgroup{path}/memory.max"))
        elif "memory" in controllers.split(","):
            files.append(Path(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"))
    return tuple(files)
