"""Kills a task's processes. Blocking: runs in a thread."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple

from .. import cgroups
from ..folder_content import StartNote
from ..metrics.process_metrics import read_anonymous_memory, sum_proportional_memory
from ..processes import (
    is_in_pid_namespace,
    list_children,
    list_descendants,
    list_pids_by_cookie,
    open_namespace_init_pidfd,
    read_start_ticks,
    send_signal,
)
from ..task_folder import TaskFolder
from .live_tasks import get_sandbox_pids

_MAX_ROUNDS = 50


class KillTarget(NamedTuple):
    """The processes to kill."""

    cookie: str
    folder: TaskFolder
    note: StartNote | None
    runner: int  # 0 when it has ended
    helpers: tuple[int, ...] = ()  # of sessions: outside the task, with children inside

    @property
    def is_sandboxed(self) -> bool:
        return self.note is None or self.note.sandbox

    @property
    def groups(self) -> tuple[str, ...]:
        return self.note.cgroups if self.note else ()


def measure_memory(target: KillTarget, limit: int) -> int:
    """Return the bytes its processes use. Shared pages count once where that decides whether it exceeds the limit."""
    if target.is_sandboxed:
        pids = _list_user_pids(target)
    else:
        pids = list_descendants(target.runner) if target.runner else []
    sizes = {pid: read_anonymous_memory(pid) for pid in pids}
    full = sum(sizes.values())
    return full if full <= limit else min(full, sum_proportional_memory(sizes)[0])


def terminate_task(target: KillTarget) -> bool:
    """Send SIGTERM to every process of the user; False if there is none yet."""
    pids = _list_user_pids(target)
    if pids:
        _mark_killed(target)
    send_signal(pids, signal.SIGTERM)
    send_signal(pids, signal.SIGCONT)  # a stopped process would not handle SIGTERM
    return bool(pids)


def continue_task(target: KillTarget) -> None:
    """Continue processes of the user that have stopped themselves."""
    send_signal(_list_user_pids(target), signal.SIGCONT)


def kill_task(target: KillTarget, *, again: bool = False) -> None:
    """Kill all of it. The runner stays, to record the exit.

    `again`: the first attempt failed. Bubblewrap, which reports the exit of the command, is spared until then.
    """
    _mark_killed(target)
    if target.is_sandboxed:
        _kill_sandbox(target)
    else:
        kill_unsandboxed_processes(target)
    if again and target.groups:
        cgroups.kill_cgroup(target.groups)


def _list_user_pids(target: KillTarget) -> list[int]:
    if not target.is_sandboxed:
        return list_unsandboxed_pids(target)
    found = get_sandbox_pids(target.folder.read_claim())
    if found is None:
        return []
    init, namespace = found
    fd = open_namespace_init_pidfd(init, namespace)
    if fd is None:
        return []
    try:
        return [
            *list_descendants(init),
            *(pid for pid in _list_session_pids(target) if is_in_pid_namespace(pid, namespace)),
        ]
    finally:
        os.close(fd)


def list_task_pids(target: KillTarget) -> list[int]:
    """Return every process of the task, including detached ones."""
    if not target.is_sandboxed:
        return list_unsandboxed_pids(target)
    return list(dict.fromkeys([*cgroups.list_pids(target.groups), *_list_user_pids(target)]))


def _list_session_pids(target: KillTarget) -> list[int]:
    """Return the processes of sessions, also before they have the attempt's cookie."""
    return [pid for helper in target.helpers for pid in list_descendants(helper)]


def _kill_sandbox(target: KillTarget) -> None:
    """Kill its first process, which ends all others of the namespace. Before there is one, kill bubblewrap itself."""
    found = get_sandbox_pids(target.folder.read_claim())
    if found is None:
        send_signal(list_children(target.runner), signal.SIGKILL)
        return
    fd = open_namespace_init_pidfd(*found)
    if fd is None:
        return
    with suppress(OSError):
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    os.close(fd)


def _mark_killed(target: KillTarget) -> None:
    """Without it, an exit that bubblewrap did not report counts as killed from outside: it reports none of a command
    that it has not started yet."""
    with suppress(OSError):  # a full disk is no reason to let it run
        target.folder.mark_killed()


def list_unsandboxed_pids(target: KillTarget) -> list[int]:
    """Return children, cgroup members, sessions, and processes with the attempt's cookie."""
    found = dict.fromkeys(list_descendants(target.runner) if target.runner else ())
    found.update(dict.fromkeys(cgroups.list_pids(target.groups)))
    found.update(dict.fromkeys(list_pids_by_cookie(target.cookie)))
    found.update(dict.fromkeys(_list_session_pids(target)))
    found.pop(target.runner, None)
    found.pop(os.getpid(), None)
    return [pid for pid in found if read_start_ticks(pid) is not None]


def kill_unsandboxed_processes(target: KillTarget) -> bool:
    """Kill them until none is left. They are stopped first, so that none can fork in between."""
    for _ in range(_MAX_ROUNDS):
        pids = list_unsandboxed_pids(target)
        if not pids:
            return True
        send_signal(pids, signal.SIGSTOP)
        send_signal(list_unsandboxed_pids(target), signal.SIGKILL)
        time.sleep(0.005)
    return False
