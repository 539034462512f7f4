"""Reads the counters of single processes from /proc. Blocking: call it from a thread.

A process may exit while it is read, so each function has a result for that.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from ..descriptors import closing_fd
from .cgroup_metrics import read_kernel_file

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_GPU_DEVICE_PATTERN = re.compile(r"/dev/nvidia[0-9]+\Z")
_SOCKET_PREFIX = "socket:["
_MIN_DIVIDED_SIZE = 1 << 20  # min bytes of a process whose memory is divided
_MAX_DIVIDED_COUNT = 50  # processes whose memory is divided, and as many more for a sample


class ProcessStat(NamedTuple):
    parent: int
    started: int  # ticks after boot: unique together with the pid
    cpu: float  # seconds, including waited-for children
    is_zombie: bool
    is_stopped: bool = False  # by a signal or a debugger


def read_process_stat(pid: int) -> ProcessStat | None:
    fields = read_kernel_file(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 21)
    if len(fields) < 20:
        return None
    cpu = sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
    return ProcessStat(int(fields[1]), int(fields[19]), cpu, fields[0] in b"ZX", fields[0] in b"Tt")


class ProcessScan(NamedTuple):
    """All processes of this machine."""

    found: dict[int, ProcessStat]
    missed: set[int]  # they exited during the scan


def scan_processes(most: int) -> ProcessScan | None:
    """Scan parents, which usually have the lower pid, before children: one that exits in between is missed, not counted
    twice. None if there are too many."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    if len(pids) > most:
        return None
    found: dict[int, ProcessStat] = {}
    missed = set()
    for pid in pids:
        stat = read_process_stat(pid)
        if stat is not None:
            found[pid] = stat
        else:
            missed.add(pid)
    return ProcessScan(found, missed)


class DiskCounters(NamedTuple):
    read: int  # bytes, including waited-for children
    written: int


def read_disk_counters(pid: int) -> DiskCounters:
    """Raises OSError: PermissionError if access is denied, others if the process does not exist."""
    with closing_fd(os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)) as fd:
        words = os.read(fd, 1024).split()
    return DiskCounters(int(words[9]), int(words[11]))


def read_anonymous_memory(pid: int) -> int:
    """In bytes. Pages shared with other processes count in full; /dev/shm does not count."""
    words = read_kernel_file(f"/proc/{pid}/statm").split()
    return max(0, int(words[1]) - int(words[2])) * _PAGE_SIZE if len(words) > 2 else 0


def read_proportional_memory(pid: int) -> tuple[int, int] | None:
    """Return its anonymous memory and swap in bytes, each page divided among its users. Expensive: the kernel walks all
    pages. None if access is denied."""
    words = read_kernel_file(f"/proc/{pid}/smaps_rollup").split()
    values = dict(pairwise(words))
    if b"Pss_Anon:" not in values:
        return None
    memory = int(values[b"Pss_Anon:"]) + int(values[b"Pss_Shmem:"])
    return memory * 1024, int(values.get(b"SwapPss:", b"0")) * 1024


def sum_proportional_memory(sizes: Mapping[int, int]) -> tuple[int, int]:
    """Return the memory and swap of all processes in bytes, from the full size of each. Only the largest are read, and
    a sample of the others."""
    ordered = sorted(sizes, key=lambda pid: sizes[pid], reverse=True)
    rest = ordered[_MAX_DIVIDED_COUNT:]
    memory, _, swap = _sum_memory(ordered[:_MAX_DIVIDED_COUNT], sizes)
    sample = rest[:: len(rest) // _MAX_DIVIDED_COUNT + 1]
    part, full, more_swap = _sum_memory(sample, sizes)
    share = sum(sizes[pid] for pid in rest) / full if full else 0.0
    return memory + int(part * share), swap + int(more_swap * share)


def _sum_memory(pids: Iterable[int], sizes: Mapping[int, int]) -> tuple[int, int, int]:
    """Return the memory, its full size and the swap of these."""
    memory = full = swap = 0
    for pid in pids:
        fair = read_proportional_memory(pid) if sizes[pid] >= _MIN_DIVIDED_SIZE else None
        full += sizes[pid]
        memory += sizes[pid] if fair is None else fair[0]
        swap += 0 if fair is None else fair[1]
    return memory, full, swap


def iter_descriptor_targets(pids: Iterable[int], most: float = math.inf) -> Iterator[str]:
    """Raises TooManyDescriptors above `most`, PermissionError if access is denied."""
    count = 0
    for pid in pids:
        try:
            with os.scandir(f"/proc/{pid}/fd") as entries:
                for entry in entries:
                    count += 1
                    if count > most:
                        raise TooManyDescriptors
                    try:
                        yield os.readlink(entry.path)
                    except FileNotFoundError:
                        continue
        except (FileNotFoundError, ProcessLookupError):
            continue


class TooManyDescriptors(Exception):
    """More than the limit."""


def is_gpu_device(opened: str) -> bool:
    """Return whether it is a device, not a file shared by all devices."""
    return _GPU_DEVICE_PATTERN.match(opened) is not None


def parse_socket_inode(opened: str) -> int | None:
    return int(opened[len(_SOCKET_PREFIX) : -1]) if opened.startswith(_SOCKET_PREFIX) else None
