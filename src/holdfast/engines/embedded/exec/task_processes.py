"""The processes of a task, for people to look at. Blocking: runs in a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from holdfast.engines.base import ProcessInfo

from ..processes import in_namespace

_MAX_COUNT = 2000  # processes
_MAX_COMMAND_LENGTH = 4096  # bytes
_SMALL_FILE = 16 * 1024


def list_task_processes(init: int, namespace: int, pids: Iterable[int] | None = None) -> list[ProcessInfo]:
    """Those of a PID namespace without its first one, or the ones named; parents before children."""
    if pids is None:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found: dict[int, ProcessInfo] = {}
    for pid in pids:
        if pid != init and (not namespace or in_namespace(pid, namespace)):
            with suppress(OSError, ValueError, IndexError):
                found[pid] = _look(pid)
        if len(found) >= _MAX_COUNT:
            break
    return _in_order(found)


def _look(pid: int) -> ProcessInfo:
    lines = _read(pid, "status").decode("utf-8", "replace").splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    words = _read(pid, "cmdline")[:_MAX_COMMAND_LENGTH].split(b"\0")
    command = tuple(word.decode("utf-8", "replace") for word in (words[:-1] if words[-1] == b"" else words))
    return ProcessInfo(
        pid=pid,
        inner_pid=int(status.get("NSpid", str(pid)).split()[-1]),
        parent=int(status["PPid"]),
        command=command or (f"[{status['Name'].strip()}]",),
        python=_is_python(pid),
    )


def _is_python(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).lower().startswith(("python", "pypy"))
    except OSError:
        return False


def _read(pid: int, name: str) -> bytes:
    fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _SMALL_FILE)
    finally:
        os.close(fd)


def _in_order(found: dict[int, ProcessInfo]) -> list[ProcessInfo]:
    below: dict[int, list[ProcessInfo]] = {}
    for info in sorted(found.values(), key=lambda info: info.inner_pid):
        below.setdefault(info.parent if info.parent in found else 0, []).append(info)
    ordered: list[ProcessInfo] = []
    ahead = below.pop(0, [])[::-1]
    while ahead:
        info = ahead.pop()
        ordered.append(info)
        ahead += below.pop(info.pid, [])[::-1]
    return ordered
