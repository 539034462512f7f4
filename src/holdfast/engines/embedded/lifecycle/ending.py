"""Ending a task's processes. Blocking: runs in a thread."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple

from .. import cgroups
from ..folder_content import StartNote
from ..metrics.process_metrics import divide
from ..processes import (
    children,
    descendants,
    in_namespace,
    open_namespace_init,
    resident,
    send,
    start_ticks,
    with_cookie,
)
from ..task_folder import TaskFolder
from .live_tasks import pids_of

_ROUNDS = 50


class Target(NamedTuple):
    """What is to be ended."""

    cookie: str
    folder: TaskFolder
    note: StartNote | None
    runner: int  # 0 when it has ended
    helpers: tuple[int, ...] = ()  # of sessions: outside themselves, their children are inside

    @property
    def sandbox(self) -> bool:
        return self.note is None or self.note.sandbox

    @property
    def groups(self) -> tuple[str, ...]:
        return self.note.cgroups if self.note else ()


def users_memory(target: Target, limit: int) -> int:
    """Bytes its processes use. Shared pages count once where that decides whether it is more than the limit."""
    pids = _tree(target)
    full = resident(pids)
    return full if full <= limit else min(full, divide({pid: resident([pid]) for pid in pids})[0])


def _tree(target: Target) -> list[int]:
    if not target.sandbox:
        return descendants(target.runner) if target.runner else []
    return _users_pids(target)


def terminate(target: Target) -> bool:
    """Ask every process of the user's to end; False when there is none yet."""
    pids = _users_pids(target)
    send(pids, signal.SIGTERM)
    send(pids, signal.SIGCONT)  # a stopped one would never hear it
    return bool(pids)


def kill(target: Target, *, again: bool = False) -> None:
    """End all of it, whatever it does. The runner stays, to write down the end.

    `again`: it did not work the first time. Bubblewrap, which tells how the command ended, is spared until then.
    """
    if target.sandbox:
        _kill_sandbox(target)
    else:
        kill_plain(target)
    if again and target.groups:
        cgroups.kill(target.groups)


def _users_pids(target: Target) -> list[int]:
    if not target.sandbox:
        return plain_pids(target)
    found = pids_of(target.folder.read_claim())
    if found is None:
        return []
    init, namespace = found
    fd = open_namespace_init(init, namespace)
    if fd is None:
        return []
    try:
        return [*descendants(init), *(pid for pid in _guests(target) if in_namespace(pid, namespace))]
    finally:
        os.close(fd)


def list_pids(target: Target) -> list[int]:
    """Every process of the task, also those that have left the tree of its first one."""
    if not target.sandbox:
        return plain_pids(target)
    return list(dict.fromkeys([*cgroups.pids_in(target.groups), *_users_pids(target)]))


def _guests(target: Target) -> list[int]:
    """What sessions run, also before it carries the attempt's cookie."""
    return [pid for helper in target.helpers for pid in descendants(helper)]


def _kill_sandbox(target: Target) -> None:
    """Its first process takes all others of the namespace with it. Before there is one, bubblewrap itself goes."""
    found = pids_of(target.folder.read_claim())
    if found is None:
        send(children(target.runner), signal.SIGKILL)
        return
    fd = open_namespace_init(*found)
    if fd is None:
        return
    with suppress(OSError):
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    os.close(fd)


def plain_pids(target: Target) -> list[int]:
    """Without a namespace: children, members of the group, guests, and whoever carries the attempt's cookie."""
    found = dict.fromkeys(descendants(target.runner) if target.runner else ())
    found.update(dict.fromkeys(cgroups.pids_in(target.groups)))
    found.update(dict.fromkeys(with_cookie(target.cookie)))
    found.update(dict.fromkeys(_guests(target)))
    found.pop(target.runner, None)
    found.pop(os.getpid(), None)
    return [pid for pid in found if start_ticks(pid) is not None]


def kill_plain(target: Target) -> bool:
    """Stop first, so that nobody forks away between being seen and being killed; again until nobody is left."""
    for _ in range(_ROUNDS):
        pids = plain_pids(target)
        if not pids:
            return True
        send(pids, signal.SIGSTOP)
        send(plain_pids(target), signal.SIGKILL)
        time.sleep(0.005)
    return False
