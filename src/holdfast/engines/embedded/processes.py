"""Processes of this machine: which run, which belong together, and watching one without mistaking another for it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
COOKIE = "HOLDFAST_COOKIE"  # a variable by which the processes of a task are known where there is no namespace
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _kernel_version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


COUNTS_BY_NAMESPACE = _kernel_version() >= (5, 14)  # a limit of processes counts those of one user namespace alone


def boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


def start_ticks(pid: int) -> int | None:
    """When a process started, in ticks after boot; None when there is none, or only its remains."""
    fields = _stat_fields(pid)
    return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])


def _stat_fields(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # the event loop reads it: as cheap as can be
            text = file.read(4096)
    except OSError:
        return None
    return text.rpartition(b")")[2].decode("ascii", "replace").split()


def open_child(pid: int) -> int | None:
    """A handle on a child we have not waited for; None where the kernel has none left, or is too old for any."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def open_pidfd(pid: int, started: int) -> int | None:
    """A handle on that very process: its start time is compared after the handle is held."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if start_ticks(pid) == started:
        return fd
    os.close(fd)
    return None


def open_namespace_init(pid: int, namespace: int) -> int | None:
    """A handle on the first process of a PID namespace; None when it is gone, or the pid now means another."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if in_namespace(pid, namespace):
        return fd
    os.close(fd)
    return None


def in_namespace(pid: int, namespace: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == namespace and start_ticks(pid) is not None
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Of all its threads."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children(queue.pop())
        found += below
        queue += below
    return found


def with_cookie(cookie: str) -> list[int]:
    """Processes of ours that carry it in their environment, however far they ran from their parents."""
    wanted = f"{COOKIE}={cookie}".encode()
    me = os.getuid()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and _owner(name) == me and wanted in _environ(name):
            found.append(int(name))
    return found


def _owner(name: str) -> int | None:
    try:
        return os.stat(f"/proc/{name}").st_uid
    except OSError:
        return None


def _environ(name: str) -> list[bytes]:
    try:
        return Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def resident(pids: Iterable[int]) -> int:
    """Bytes of memory in use, shared pages counted for one of their users (as a control group counts them)."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            _, pages, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
            total += max(0, int(pages) - int(shared)) * _PAGE
    return total


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def uptime() -> float:
    """Seconds after boot, suspended time included; the clock of process start times."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
