"""Lists the processes of a task for display. Blocking: runs in a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from holdfast.engines.base import TaskProcess

from ..descriptors import closing_fd

_MAX_PROCESS_COUNT = 2000  # processes
_MAX_COMMAND_LENGTH = 4096  # bytes
_MAX_FILE_SIZE = 16 * 1024  # bytes


def list_task_processes(pids: Iterable[int]) -> list[TaskProcess]:
    """Describe these processes of a task, parents before children."""
    found: dict[int, TaskProcess] = {}
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            found[pid] = _read_process(pid)
        if len(found) >= _MAX_PROCESS_COUNT:
            break
    return sort_by_parent(found)


def _read_process(pid: int) -> TaskProcess:
    lines = _read_proc_file(pid, "status").decode("utf-8", "replace").splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    words = _read_proc_file(pid, "cmdline")[:_MAX_COMMAND_LENGTH].split(b"\0")
    command = tuple(word.decode("utf-8", "replace") for word in (words[:-1] if words[-1] == b"" else words))
    return TaskProcess(
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


def _read_proc_file(pid: int, name: str) -> bytes:
    with closing_fd(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)) as fd:
        return os.read(fd, _MAX_FILE_SIZE)


def sort_by_parent(found: dict[int, TaskProcess]) -> list[TaskProcess]:
    """Return processes by pid as a list, parents before children."""
    below: dict[int, list[TaskProcess]] = {}
    for info in sorted(found.values(), key=lambda info: info.inner_pid):
        below.setdefault(info.parent if info.parent in found else 0, []).append(info)
    ordered: list[TaskProcess] = []
    ahead = below.pop(0, [])[::-1]
    while ahead:
        info = ahead.pop()
        ordered.append(info)
        ahead += below.pop(info.pid, [])[::-1]
    return ordered
