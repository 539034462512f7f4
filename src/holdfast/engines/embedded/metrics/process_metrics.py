"""What single processes have counted, out of /proc. Blocking: call it from a thread.

A process is looked at while it may end, so each look has an answer for one that is gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from .cgroup_metrics import read_file

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_DEVICE = re.compile(r"/dev/nvidia[0-9]+\Z")
_SOCKET = "socket:["
_LARGE = 1 << 20  # bytes of a process whose memory is worth dividing
_LOOKED_AT = 50  # processes whose memory is divided, and as many more for a sample


class Stat(NamedTuple):
    parent: int
    started: int  # ticks after boot: with the pid, no other process has it
    cpu: float  # seconds, with those of children that it has waited for
    remains: bool  # it has ended, and its parent has not waited for it


def read_stat(pid: int) -> Stat | None:
    fields = read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 21)
    if len(fields) < 20:
        return None
    return Stat(int(fields[1]), int(fields[19]), sum(map(int, fields[11:15])) / _TICKS, fields[0] in b"ZX")


class Scan(NamedTuple):
    """All processes of this machine."""

    found: dict[int, Stat]
    missed: set[int]  # they ended while we looked


def scan(most: int) -> Scan | None:
    """Parents, which mostly have the lower number, before children: one that ends in between is missed, and not
    counted twice. None when there are too many to look at."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    if len(pids) > most:
        return None
    found: dict[int, Stat] = {}
    missed = set()
    for pid in pids:
        stat = read_stat(pid)
        if stat is not None:
            found[pid] = stat
        else:
            missed.add(pid)
    return Scan(found, missed)


class Disk(NamedTuple):
    read: int  # bytes, with those of children that it has waited for
    written: int


def read_disk(pid: int) -> Disk:
    """Raises OSError: PermissionError where it may not be known, others when there is no such process."""
    fd = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
    try:
        words = os.read(fd, 1024).split()
    finally:
        os.close(fd)
    return Disk(int(words[9]), int(words[11]))


def own_memory(pid: int) -> int:
    """Bytes in memory that no file is behind. What is shared with other processes counts in full for each; what lies in
    /dev/shm does not count."""
    words = read_file(f"/proc/{pid}/statm").split()
    return max(0, int(words[1]) - int(words[2])) * _PAGE if len(words) > 2 else 0


def fair_memory(pid: int) -> tuple[int, int] | None:
    """Bytes in memory and in swap that no file is behind, each page divided among those who share it. The kernel goes
    through all its pages for that. None where it may not be known."""
    words = read_file(f"/proc/{pid}/smaps_rollup").split()
    values = dict(pairwise(words))
    if b"Pss_Anon:" not in values:
        return None
    memory = int(values[b"Pss_Anon:"]) + int(values[b"Pss_Shmem:"])
    return memory * 1024, int(values.get(b"SwapPss:", b"0")) * 1024


def divide(sizes: Mapping[int, int]) -> tuple[int, int]:
    """Bytes in memory and in swap that processes have together, by what each has when it is counted in full. Only the
    largest are looked at, and some of the others, as a sample."""
    ordered = sorted(sizes, key=lambda pid: sizes[pid], reverse=True)
    rest = ordered[_LOOKED_AT:]
    memory, _, swap = _divide_all(ordered[:_LOOKED_AT], sizes)
    sample = rest[:: len(rest) // _LOOKED_AT + 1]
    part, full, more_swap = _divide_all(sample, sizes)
    share = sum(sizes[pid] for pid in rest) / full if full else 0.0
    return memory + int(part * share), swap + int(more_swap * share)


def _divide_all(pids: Iterable[int], sizes: Mapping[int, int]) -> tuple[int, int, int]:
    """Of these: memory, what it would be counted in full, swap."""
    memory = full = swap = 0
    for pid in pids:
        fair = fair_memory(pid) if sizes[pid] >= _LARGE else None
        full += sizes[pid]
        memory += sizes[pid] if fair is None else fair[0]
        swap += 0 if fair is None else fair[1]
    return memory, full, swap


def open_files(pids: Iterable[int], most: int) -> Iterator[str]:
    """What the descriptors of these processes lead to. Raises TooMany beyond that number, PermissionError where it may
    not be known."""
    count = 0
    for pid in pids:
        try:
            with os.scandir(f"/proc/{pid}/fd") as entries:
                for entry in entries:
                    count += 1
                    if count > most:
                        raise TooMany
                    try:
                        yield os.readlink(entry.path)
                    except FileNotFoundError:
                        continue
        except (FileNotFoundError, ProcessLookupError):
            continue


class TooMany(Exception):
    """More than is looked at."""


def is_gpu(opened: str) -> bool:
    """A device, as opposed to what all of them share."""
    return _DEVICE.match(opened) is not None


def socket_number(opened: str) -> int | None:
    return int(opened[len(_SOCKET) : -1]) if opened.startswith(_SOCKET) else None
