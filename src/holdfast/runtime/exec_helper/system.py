"""System calls and small helpers of the exec helper."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TASK_ENDED_MESSAGE = "The task has just ended."
SETUP_TIMEOUT = 10.0  # seconds a sandbox may take to be ready
RETRY_INTERVAL = 0.005  # seconds
MAX_PROC_FILE_SIZE = 64 * 1024  # bytes

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 15, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47

libc = ctypes.CDLL(None, use_errno=True)


class ExecError(Exception):
    """Its text is shown to the user."""


def is_stack_dump_request(request: dict[str, Any]) -> bool:
    """Return whether it inspects a process of the task: with our program, and nothing from the task's environment."""
    return bool(request["kind"] == "stacks")


def read_all(fd: int, most: int | None) -> bytes:
    parts = []
    left = most
    while left is None or left > 0:
        part = os.read(fd, 1 << 20 if left is None else min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left = left if left is None else left - len(part)
    return b"".join(parts)


def join_namespace(fd: int, kind: int) -> None:
    check_syscall_result(libc.setns(fd, kind))


def call_prctl(option: int, *words: int) -> None:
    given = [ctypes.c_ulong(word) for word in (*words, 0, 0, 0, 0)[:4]]
    check_syscall_result(libc.prctl(option, *given))


def check_syscall_result(answer: int) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
