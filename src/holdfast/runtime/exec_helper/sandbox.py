"""The namespaces and the root of a task's sandbox, opened from outside before anything is joined."""

from __future__ import annotations

import fcntl
import os
import resource
import select
from time import monotonic, sleep

from .system import (
    MAX_PROC_FILE_SIZE,
    RETRY_INTERVAL,
    SETUP_TIMEOUT,
    TASK_ENDED_MESSAGE,
    ExecError,
    join_namespace,
    read_all,
)

_LIMIT_KINDS = range(16)
_NS_GET_USERNS = 0xB701
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNS = 0x10000000, 0x20000000, 0x00020000
_OTHER_NAMESPACE_FLAGS = {"cgroup": 0x02000000, "ipc": 0x08000000, "uts": 0x04000000, "net": 0x40000000}


class TaskSandbox:
    """Handles on the namespaces and the root of a task's sandbox, and the limits of its processes.

    All are opened by the pid of its first process, whose identity is checked before and after. That process sets up
    the sandbox, with the machine's own files, until it has a child: the command."""

    def __init__(self, pid: int, namespace: int) -> None:
        try:
            handle = os.pidfd_open(pid)
            folder = f"/proc/{pid}"
            self.pid_namespace = os.open(f"{folder}/ns/pid", os.O_RDONLY)
            if os.fstat(self.pid_namespace).st_ino != namespace:
                raise ProcessLookupError
            self.command_pid = wait_for_command(pid, handle)
            self.user_namespace = os.open(f"{folder}/ns/user", os.O_RDONLY)
            self.mount_namespace = os.open(f"{folder}/ns/mnt", os.O_RDONLY)
            self.other_namespaces = _open_other_namespaces(folder)
            self.owner_namespace = fcntl.ioctl(self.mount_namespace, _NS_GET_USERNS)
            self.is_nested = os.fstat(self.owner_namespace).st_ino != os.stat("/proc/self/ns/user").st_ino
            self.root = os.open(f"{folder}/root", os.O_PATH)
            self.limits = [(kind, resource.prlimit(pid, kind)) for kind in _LIMIT_KINDS]
            self.status = _read_status(pid)
            if _has_exited(handle):
                raise ProcessLookupError
            os.close(handle)
        except (ProcessLookupError, FileNotFoundError) as error:
            raise ExecError(TASK_ENDED_MESSAGE) from error
        if os.path.samestat(os.fstat(self.root), os.stat("/")):
            raise ExecError("The task has no root filesystem of its own.")

    def join_filesystem(self) -> None:
        """Join its user and mount namespace, and its root. Done before forking: through a child that still had the
        machine's root, the task could reach the machine's files (/proc/PID/root)."""
        if self.is_nested:
            join_namespace(self.owner_namespace, _CLONE_NEWUSER)
        join_namespace(self.mount_namespace, _CLONE_NEWNS)
        os.fchdir(self.root)
        os.chroot(".")

    def join_namespaces(self) -> None:
        """Join the other namespaces, the (possibly nested) user namespace of its processes last. Only children join
        the PID namespace: the caller stays invisible to the task."""
        join_namespace(self.pid_namespace, _CLONE_NEWPID)
        for fd, kind in self.other_namespaces:
            join_namespace(fd, kind)
        if os.fstat(self.user_namespace).st_ino != os.fstat(self.owner_namespace).st_ino:
            join_namespace(self.user_namespace, _CLONE_NEWUSER)


def _open_other_namespaces(folder: str) -> list[tuple[int, int]]:
    """Open its namespaces of other kinds that differ from ours."""
    opened = {name: os.open(f"{folder}/ns/{name}", os.O_RDONLY) for name in _OTHER_NAMESPACE_FLAGS}
    return [
        (fd, _OTHER_NAMESPACE_FLAGS[name])
        for name, fd in opened.items()
        if os.fstat(fd).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino
    ]


def wait_for_command(pid: int, handle: int | None = None) -> int:
    """Return the pid of the command or its wrapper: the oldest child of the sandbox's first process."""
    end = monotonic() + SETUP_TIMEOUT
    while monotonic() < end:
        try:
            with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
                found = file.read(64).split()
        except OSError as error:
            raise ExecError(TASK_ENDED_MESSAGE) from error
        if found:
            return int(found[0])
        if handle is not None and _has_exited(handle):
            raise ExecError(TASK_ENDED_MESSAGE)
        sleep(RETRY_INTERVAL)
    raise ExecError("The task is still being set up. Try again in a moment.")


def _has_exited(handle: int) -> bool:
    return bool(select.select([handle], [], [], 0)[0])


def _read_status(pid: int) -> dict[str, str]:
    fd = os.open(f"/proc/{pid}/status", os.O_RDONLY)
    try:
        lines = read_all(fd, MAX_PROC_FILE_SIZE).decode("ascii", "replace").splitlines()
    finally:
        os.close(fd)
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
