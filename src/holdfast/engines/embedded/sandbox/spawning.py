"""Starts the runner of one task: detached, with the claim's lock in its hands and nothing else of ours."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import libc
from ..libc import Dup, Open
from ..sandbox_paths import PATH
from ..task_folder import TaskFolder
from .bubblewrap import Bwrap
from .render import ARGS_FD, BWRAP_FD, ENTRY_FD, HOLD_FD, MOUNT_FD, SCRIPT_FD, SECCOMP_FD

RUNNER = str(Path(__file__).parents[3] / "runtime" / "runner.sh")
_CLAIM_FD = 9
_HIGH = 100  # sources of descriptors lie above every target
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the runner is to run. Arguments and script hold secrets: they are handed over in memory, never on disk."""

    command: Sequence[str]
    bwrap: Bwrap | None = None  # without it, run the command as it is
    args: Sequence[str] = ()  # for bwrap
    script: str = ""
    entry: str = ""
    hold: str = ""  # the script that keeps a failed task
    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": PATH})  # of the runner
    workdir: str = "/"
    base: str = ""  # for bwrap: a folder of the server's user alone
    joins: Sequence[str] = ()  # cgroup.procs files
    seccomp: bytes = b""  # the filter of system calls
    mounts: Sequence[int] = ()  # descriptors of what is mounted, in order from MOUNT_FD; closed by whoever opened them


def spawn(folder: TaskFolder, claim: int, order: Order) -> int:
    """The pid of the runner. `claim` is locked by us; from here on the lock is the runner's too."""
    command, env = list(order.command), dict(order.env)
    sources = {_CLAIM_FD: fcntl.fcntl(claim, fcntl.F_DUPFD_CLOEXEC, _HIGH)}
    try:
        if order.bwrap:
            command = [*_open_bwrap(order.bwrap, sources), "--args", str(ARGS_FD), *command]
            env.update(order.bwrap.link_libraries(order.base))
            sources[ARGS_FD] = memory_file("\0".join(order.args).encode("utf-8", "surrogateescape"))
            if order.seccomp:
                sources[SECCOMP_FD] = memory_file(order.seccomp)
            sources[SCRIPT_FD] = memory_file(order.script.encode("utf-8", "surrogateescape"))
            if order.entry:
                sources[ENTRY_FD] = memory_file(order.entry.encode("utf-8", "surrogateescape"))
            if order.hold:
                sources[HOLD_FD] = memory_file(order.hold.encode())
            sources[0] = memory_file(b"")  # not the machine's /dev/null, which a task of root could close to others
            for target, mount in enumerate(order.mounts, MOUNT_FD):
                sources[target] = fcntl.fcntl(mount, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        argv = ["/bin/sh", RUNNER, order.workdir, folder["claim"], "\n".join(order.joins), *command]
        return libc.spawn(argv, env, _file_actions(folder, sources))
    finally:
        for source in sources.values():
            os.close(source)


def _open_bwrap(bwrap: Bwrap, sources: dict[int, int]) -> list[str]:
    """How to run it. What it is told is a synchronisation descriptor it closes before it runs the task's command."""
    copy = bwrap.open_copy()
    if copy is None:
        return [bwrap.path]
    sources[BWRAP_FD] = copy
    return [f"/proc/self/fd/{BWRAP_FD}", "--sync-fd", str(BWRAP_FD)]


def _file_actions(folder: TaskFolder, sources: Mapping[int, int]) -> list[Dup | Open]:
    actions: list[Dup | Open] = [Dup(source, target) for target, source in sources.items()]
    if 0 not in sources:
        actions.append(Open(0, "/dev/null", os.O_RDONLY))
    actions.append(Open(1, folder["stdout"], _APPEND, 0o600))
    actions.append(Open(2, folder["stderr"], _APPEND, 0o600))
    return actions


def memory_file(data: bytes) -> int:
    """A file that is nowhere on disk, ready to be read from its start."""
    fd = os.memfd_create("holdfast")
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    finally:
        os.close(fd)


def keep_descriptors_private() -> None:
    """Descriptors we were started with and know nothing of must not reach the tasks."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2:
            try:
                os.set_inheritable(fd, False)
            except OSError:
                continue
