"""Processes of this machine: finding, grouping, and watching them safely despite reused pids."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from .metrics.cgroup_metrics import read_kernel_file
from .metrics.process_metrics import read_process_stat

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
COOKIE_VARIABLE = "HOLDFAST_COOKIE"  # variable that identifies the processes of a task without a PID namespace
_MAX_ENVIRON_SIZE = 2 * 1024 * 1024  # bytes
_KERNEL_VERSION = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
HAS_NAMESPACED_PROCESS_LIMIT = _KERNEL_VERSION >= (5, 14)  # a process limit only counts one user namespace


def read_boot_id() -> str:
    try:
        return BOOT_ID_FILE.read_text().strip()
    except OSError:
        return "unknown"


def read_start_ticks(pid: int) -> int | None:
    """In ticks after boot; None if it does not exist, or is a zombie. Cheap enough for the event loop."""
    stat = read_process_stat(pid)
    return None if stat is None or stat.is_zombie else stat.started


def open_child_pidfd(pid: int) -> int | None:
    """Return a pidfd of a child we have not waited for; None if there are none left, or the kernel is too old."""
    return _open_pidfd_if(pid, lambda: True)


def open_pidfd(pid: int, started: int) -> int | None:
    """Return a pidfd of exactly that process: its start time is compared afterwards."""
    return _open_pidfd_if(pid, lambda: read_start_ticks(pid) == started)


def open_namespace_init_pidfd(pid: int, namespace: int) -> int | None:
    """Return a pidfd of the first process of a PID namespace; None if it has exited, or the pid was reused."""
    return _open_pidfd_if(pid, lambda: is_in_pid_namespace(pid, namespace))


def _open_pidfd_if(pid: int, is_expected: Callable[[], bool]) -> int | None:
    """Open it before the check: an open pidfd keeps its process, whatever becomes of the pid."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if is_expected():
        return fd
    os.close(fd)
    return None


def is_in_pid_namespace(pid: int, namespace: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == namespace and read_start_ticks(pid) is not None
    except OSError:
        return False


def list_all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_process_variable(pid: int, name: str) -> str:
    """Return a variable from the initial environment of a process; empty if it has none, or access is denied."""
    start = f"{name}=".encode()
    for variable in read_kernel_file(f"/proc/{pid}/environ", _MAX_ENVIRON_SIZE).split(b"\0"):
        if variable.startswith(start):
            return variable.removeprefix(start).decode("utf-8", "replace")
    return ""


def list_children(pid: int) -> list[int]:
    """Return the children of all its threads."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def list_descendants(pid: int) -> list[int]:
    found: list[int] = []
    queue = [pid]
    while queue:
        below = list_children(queue.pop())
        found += below
        queue += below
    return found


def list_pids_by_cookie(cookie: str) -> list[int]:
    """Return our processes with this cookie in their environment, however detached."""
    wanted = f"{COOKIE_VARIABLE}={cookie}".encode()
    me = os.getuid()
    found = []
    for pid in list_all_pids():
        with suppress(OSError):  # it has exited
            if os.stat(f"/proc/{pid}").st_uid == me and wanted in Path(f"/proc/{pid}/environ").read_bytes().split(
                b"\0"
            ):
                found.append(pid)
    return found


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def read_uptime() -> float:
    """Return seconds after boot, including suspended time; the clock of process start times."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
