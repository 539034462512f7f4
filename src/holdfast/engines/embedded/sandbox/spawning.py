"""Starts the runner of one task: detached, with the claim's lock and none of our other descriptors."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import libc
from ..descriptors import closing_fd
from ..libc import DupAction, OpenAction
from ..sandbox_paths import SEARCH_PATH
from ..task_folder import TaskFolder
from .bubblewrap import Bwrap
from .render import ARGS_FD, BWRAP_FD, ENTRY_FD, FIRST_MOUNT_FD, HOLD_FD, SCRIPT_FD, SECCOMP_FD, USER_SWITCH_FD

RUNNER_SCRIPT = str(Path(__file__).parents[3] / "runtime" / "runner.sh")
_CLAIM_FD = 9
_MIN_SOURCE_FD = 100  # source descriptors are above every target
_APPEND_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSpec:
    """What the runner runs. Arguments and scripts contain secrets: they are passed in memory, never on disk."""

    command: Sequence[str]
    bwrap: Bwrap | None = None  # without it, run the command directly
    args: Sequence[str] = ()  # for bwrap
    script: str = ""
    entry: str = ""
    hold: str = ""  # the script that holds a failed task
    user_switch: bytes = b""  # the program that becomes the image's user
    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": SEARCH_PATH})  # of the runner
    workdir: str = "/"
    base: str = ""  # for bwrap: a private folder of the server's user
    cgroup_files: Sequence[str] = ()  # cgroup.procs files
    seccomp: bytes = b""  # the system call filter
    mounts: Sequence[int] = ()  # descriptors of the mounts, in order from FIRST_MOUNT_FD; closed by their opener


def spawn_runner(folder: TaskFolder, claim: int, order: RunnerSpec) -> int:
    """Return the pid of the runner. `claim` is locked by us; the runner inherits the lock."""
    command, env = list(order.command), dict(order.env)
    sources = {_CLAIM_FD: fcntl.fcntl(claim, fcntl.F_DUPFD_CLOEXEC, _MIN_SOURCE_FD)}
    try:
        if order.bwrap:
            command = [*_make_bwrap_command(order.bwrap, sources), "--args", str(ARGS_FD), *command]
            env.update(order.bwrap.prepare_library_env(order.base))
            sources[ARGS_FD] = create_memory_file("\0".join(order.args).encode("utf-8", "surrogateescape"))
            if order.seccomp:
                sources[SECCOMP_FD] = create_memory_file(order.seccomp)
            sources[SCRIPT_FD] = create_memory_file(order.script.encode("utf-8", "surrogateescape"))
            if order.entry:
                sources[ENTRY_FD] = create_memory_file(order.entry.encode("utf-8", "surrogateescape"))
            if order.hold:
                sources[HOLD_FD] = create_memory_file(order.hold.encode())
            if order.user_switch:
                sources[USER_SWITCH_FD] = create_memory_file(order.user_switch)
            sources[0] = create_memory_file(
                b""
            )  # not the machine's /dev/null, which a task of root could close to others
            for target, mount in enumerate(order.mounts, FIRST_MOUNT_FD):
                sources[target] = fcntl.fcntl(mount, fcntl.F_DUPFD_CLOEXEC, _MIN_SOURCE_FD)
        argv = ["/bin/sh", RUNNER_SCRIPT, order.workdir, folder["claim"], "\n".join(order.cgroup_files), *command]
        return libc.spawn_process(argv, env, _make_file_actions(folder, sources))
    finally:
        for source in sources.values():
            os.close(source)


def _make_bwrap_command(bwrap: Bwrap, sources: dict[int, int]) -> list[str]:
    """Its report uses a synchronisation descriptor that it closes before the task's command."""
    copy = bwrap.open_copy()
    if copy is None:
        return [bwrap.path]
    sources[BWRAP_FD] = copy
    return [f"/proc/self/fd/{BWRAP_FD}", "--sync-fd", str(BWRAP_FD)]


def _make_file_actions(folder: TaskFolder, sources: Mapping[int, int]) -> list[DupAction | OpenAction]:
    actions: list[DupAction | OpenAction] = [DupAction(source, target) for target, source in sources.items()]
    if 0 not in sources:
        actions.append(OpenAction(0, "/dev/null", os.O_RDONLY))
    actions.append(OpenAction(1, folder["stdout"], _APPEND_FLAGS, 0o600))
    actions.append(OpenAction(2, folder["stderr"], _APPEND_FLAGS, 0o600))
    return actions


def create_memory_file(data: bytes) -> int:
    """Return a file that exists only in memory, at its start."""
    with closing_fd(os.memfd_create("holdfast")) as fd:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _MIN_SOURCE_FD)


def disable_descriptor_inheritance() -> None:
    """Close descriptors inherited from our parent to the tasks."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2:
            try:
                os.set_inheritable(fd, False)
            except OSError:
                continue
