"""Reads the counters of a task's cgroups, of version 2, version 1 or both. Blocking: call it from a thread.

The files are located once for each task; a sample then reads five or six of them, however many processes the task has.
Missing or unreadable values are None.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ..descriptors import closing_fd

_UNLIMITED_MEMORY = 1 << 60  # version 1 expresses it by a number
_MAX_SMALL_FILE_SIZE = 16 * 1024  # bytes
_MAX_LARGE_FILE_SIZE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMetrics:
    cpu: float | None = None  # seconds; None: not counted by this group
    throttled: float | None = None  # seconds
    memory: int | None = None  # bytes, without reclaimable file cache
    memory_peak: int | None = None
    memory_limit: int | None = None
    swap: int | None = None
    disk_wait: float | None = None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupFiles:
    """Paths of the metrics of one group. Empty: none."""

    cpu_stat: str = ""  # of version 2: microseconds
    cpu_usage: str = ""  # of version 1: nanoseconds
    throttled: str = ""  # of version 1, where cpu_stat has none
    memory: str = ""
    memory_stat: str = ""
    memory_peak: str = ""
    memory_limit: str = ""  # of version 2; version 1 has it in memory_stat
    swap: str = ""  # likewise
    pressure: str = ""
    processes: str = ""
    cgroup_id: int = 0  # identifies the owner of a socket; 0: not by this group


_FILE_NAMES = {
    "cpu_usage": "cpuacct.usage",
    "memory_stat": "memory.stat",
    "memory_limit": "memory.max",
    "swap": "memory.swap.current",
    "pressure": "io.pressure",
    "processes": "cgroup.procs",
}


def find_cgroup_files(folders: Iterable[str]) -> CgroupFiles:
    found: dict[str, str] = {}
    number = 0
    for folder in folders:
        try:
            names, inode = set(os.listdir(folder)), os.stat(folder).st_ino
        except OSError:  # a container daemon removes them by itself
            continue
        choices = dict(_FILE_NAMES)
        choices["cpu_stat" if "cgroup.events" in names else "throttled"] = "cpu.stat"
        choices["memory"] = "memory.current" if "memory.current" in names else "memory.usage_in_bytes"
        choices["memory_peak"] = "memory.peak" if "memory.peak" in names else "memory.max_usage_in_bytes"
        for field, name in choices.items():
            if name in names:
                found.setdefault(field, f"{folder}/{name}")
        if "cgroup.events" in names:  # version 2
            number = inode
    return CgroupFiles(cgroup_id=number, **found)


def read_cgroup_metrics(files: CgroupFiles) -> CgroupMetrics:
    cpu_stat = read_counters(files.cpu_stat)
    memory_stat = read_counters(files.memory_stat)
    memory = read_number(files.memory)
    cached = _get_cached_bytes(memory_stat)
    peak = read_number(files.memory_peak)
    return CgroupMetrics(
        cpu=_to_seconds(cpu_stat.get(b"usage_usec"), read_number(files.cpu_usage)),
        throttled=_to_seconds(cpu_stat.get(b"throttled_usec"), read_counters(files.throttled).get(b"throttled_time")),
        memory=None if memory is None else max(0, memory - cached),
        # The kernel's peak includes the file cache. Most of the current cache was part of the peak as well.
        memory_peak=None if peak is None else max(0, peak - cached),
        memory_limit=_read_memory_limit(files, memory_stat),
        swap=read_number(files.swap) if files.swap else memory_stat.get(b"total_swap"),
        disk_wait=_read_disk_wait(files),
    )


def _get_cached_bytes(stat: dict[bytes, int]) -> int:
    """Return the file cache, active and inactive: the kernel reclaims it when memory is needed."""
    prefix = b"total_" if b"total_inactive_file" in stat else b""
    return stat.get(prefix + b"inactive_file", 0) + stat.get(prefix + b"active_file", 0)


def read_cgroup_pids(files: CgroupFiles) -> list[int]:
    """Return the processes in the group; empty if unknown."""
    return (
        [int(pid) for pid in read_kernel_file(files.processes, _MAX_LARGE_FILE_SIZE).split()] if files.processes else []
    )


def _to_seconds(microseconds: int | None, nanoseconds: int | None) -> float | None:
    """Convert the counter of version 2, else that of version 1."""
    if microseconds is not None:
        return microseconds / 1e6
    return None if nanoseconds is None else nanoseconds / 1e9


def _read_memory_limit(files: CgroupFiles, stat: dict[bytes, int]) -> int | None:
    limit = read_number(files.memory_limit) if files.memory_limit else stat.get(b"hierarchical_memory_limit")
    return None if limit is None or limit >= _UNLIMITED_MEMORY else limit


def _read_disk_wait(files: CgroupFiles) -> float | None:
    """Parse a line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`. If the kernel does not track pressure,
    the file cannot be read."""
    for line in read_kernel_file(files.pressure).splitlines():
        if line.startswith(b"some "):
            total = line.rpartition(b"total=")[2]
            return int(total) / 1e6 if total.isdigit() else None
    return None


# --- small files of the kernel ------------------------------------------------------------------------------------


def read_kernel_file(path: str, most: int = _MAX_SMALL_FILE_SIZE) -> bytes:
    """Return its content; empty if it cannot be read."""
    if not path:
        return b""
    with suppress(OSError), closing_fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        data = os.read(fd, most)
        while len(data) < most and (more := os.read(fd, most - len(data))):
            data += more
        return data
    return b""


def read_number(path: str) -> int | None:
    text = read_kernel_file(path).strip()
    return int(text) if text.isdigit() else None


def read_counters(path: str) -> dict[bytes, int]:
    """Parse a file with a name and a number on each line."""
    words = read_kernel_file(path).split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=False) if value.isdigit()}
