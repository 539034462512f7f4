"""What a task's control groups have counted, of version 2, version 1 or both. Blocking: call it from a thread.

Which files there are is found once for each task; a look then reads five or six of them, however many processes the
task has. Whatever is missing or unreadable is None.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

_UNLIMITED = 1 << 60  # version 1 says so by a number
_SMALL = 16 * 1024
_LARGE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMetrics:
    cpu: float | None = None  # seconds; None: this group does not count it
    throttled: float | None = None  # seconds
    memory: int | None = None  # bytes, without files that would be given back
    memory_peak: int | None = None
    memory_limit: int | None = None
    swap: int | None = None
    disk_wait: float | None = None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFiles:
    """Where the figures of one group stand. Empty: nowhere."""

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
    number: int = 0  # by which the kernel tells whose a socket is; 0: not by this group


_NAMES = {
    "cpu_usage": "cpuacct.usage",
    "memory_stat": "memory.stat",
    "memory_limit": "memory.max",
    "swap": "memory.swap.current",
    "pressure": "io.pressure",
    "processes": "cgroup.procs",
}


def find_files(folders: Iterable[str]) -> GroupFiles:
    found: dict[str, str] = {}
    number = 0
    for folder in folders:
        try:
            names = set(os.listdir(folder))
        except OSError:
            continue
        choices = dict(_NAMES)
        choices["cpu_stat" if "cgroup.events" in names else "throttled"] = "cpu.stat"
        choices["memory"] = "memory.current" if "memory.current" in names else "memory.usage_in_bytes"
        choices["memory_peak"] = "memory.peak" if "memory.peak" in names else "memory.max_usage_in_bytes"
        for field, name in choices.items():
            if name in names:
                found.setdefault(field, f"{folder}/{name}")
        if "cgroup.events" in names:  # version 2
            number = os.stat(folder).st_ino
    return GroupFiles(number=number, **found)


def read_group(files: GroupFiles) -> CgroupMetrics:
    cpu_stat = read_lines(files.cpu_stat)
    memory_stat = read_lines(files.memory_stat)
    memory = read_number(files.memory)
    cached = _cached(memory_stat)
    peak = read_number(files.memory_peak)
    return CgroupMetrics(
        cpu=_cpu(files, cpu_stat),
        throttled=_throttled(files, cpu_stat),
        memory=None if memory is None else max(0, memory - cached),
        # The kernel's own includes what it caches. What it caches now was, for the greater part, in its peak as well.
        memory_peak=None if peak is None else max(0, peak - cached),
        memory_limit=_limit(files, memory_stat),
        swap=read_number(files.swap) if files.swap else memory_stat.get(b"total_swap"),
        disk_wait=_disk_wait(files),
    )


def _cached(stat: dict[bytes, int]) -> int:
    """Of files, also of those that were read more than once: the kernel gives it back when memory is wanted."""
    prefix = b"total_" if b"total_inactive_file" in stat else b""
    return stat.get(prefix + b"inactive_file", 0) + stat.get(prefix + b"active_file", 0)


def read_processes(files: GroupFiles) -> list[int]:
    """Those that are in the group; empty when nobody can tell."""
    return [int(pid) for pid in read_file(files.processes, _LARGE).split()] if files.processes else []


def _cpu(files: GroupFiles, stat: dict[bytes, int]) -> float | None:
    if b"usage_usec" in stat:
        return stat[b"usage_usec"] / 1e6
    usage = read_number(files.cpu_usage)
    return None if usage is None else usage / 1e9


def _throttled(files: GroupFiles, stat: dict[bytes, int]) -> float | None:
    if b"throttled_usec" in stat:
        return stat[b"throttled_usec"] / 1e6
    older = read_lines(files.throttled).get(b"throttled_time")
    return None if older is None else older / 1e9


def _limit(files: GroupFiles, stat: dict[bytes, int]) -> int | None:
    limit = read_number(files.memory_limit) if files.memory_limit else stat.get(b"hierarchical_memory_limit")
    return None if limit is None or limit >= _UNLIMITED else limit


def _disk_wait(files: GroupFiles) -> float | None:
    """From a line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`. Where the kernel does not watch
    pressure, the file cannot be read."""
    for line in read_file(files.pressure).splitlines():
        if line.startswith(b"some "):
            total = line.rpartition(b"total=")[2]
            return int(total) / 1e6 if total.isdigit() else None
    return None


# --- small files of the kernel ------------------------------------------------------------------------------------


def read_file(path: str, most: int = _SMALL) -> bytes:
    """Empty when it cannot be read."""
    if not path:
        return b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = os.read(fd, most)
        while len(data) < most and (more := os.read(fd, most - len(data))):
            data += more
        return data
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_number(path: str) -> int | None:
    text = read_file(path).strip()
    return int(text) if text.isdigit() else None


def read_lines(path: str) -> dict[bytes, int]:
    """Of a file with a name and a number on each line."""
    words = read_file(path).split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=False) if value.isdigit()}
