"""Joins the sandbox of a task and runs a command there, as an ordinary user. `slurm_session.sh` runs it on the node.

    python -I -S slurm_enter.py PID COMMAND [ARG...]

PID is a process in the sandbox. Its mounts belong to the user namespace that bubblewrap created first, and its
processes may be in another one below that, so both are joined. `nsenter` cannot do that. It needs Python 3.8.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys

_NS_GET_USERNS = 0xB701
_NEW_USER = 0x10000000
_KINDS = {"mnt": 0x00020000, "ipc": 0x08000000, "uts": 0x04000000, "pid": 0x20000000}
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    pid, command = sys.argv[1], sys.argv[2:]
    namespaces = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in ("user", *_KINDS)}
    owner = fcntl.ioctl(namespaces["mnt"], _NS_GET_USERNS)
    join_namespace(owner, _NEW_USER)
    for name, kind in _KINDS.items():
        join_namespace(namespaces[name], kind)
    if os.fstat(owner).st_ino != os.fstat(namespaces["user"]).st_ino:
        join_namespace(namespaces["user"], _NEW_USER)
    child = os.fork()
    if not child:
        try:
            os.execv(command[0], command)
        finally:
            os._exit(126)
    _, status = os.waitpid(child, 0)
    sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def join_namespace(fd: int, kind: int) -> None:
    if _libc.setns(fd, kind):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


main()
