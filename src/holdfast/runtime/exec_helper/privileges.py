"""Privileges and resource limits: those of the task, for a process that joins it."""

from __future__ import annotations

import ctypes
import os
import resource

from .sandbox import TaskSandbox
from .system import (
    PR_CAP_AMBIENT,
    PR_CAPBSET_DROP,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_SECCOMP,
    call_prctl,
    check_syscall_result,
    is_stack_dump_request,
    libc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_AMBIENT_RAISE, _AMBIENT_CLEAR = 2, 4
_CAPABILITY_VERSION = 0x20080522
_CAP_SYS_PTRACE = 1 << 19
_SECCOMP_MODE_FILTER = 2
_MAX_DUMP_MEMORY = 4 * 1024**3  # bytes of address space


def drop_privileges(sandbox: TaskSandbox, request: dict[str, Any]) -> None:
    """Keep those of the task's command, as its user. In a user namespace only its root user has any. A stack dump stays
    root and also keeps SYS_PTRACE, for machines where only parents may trace; with more privileges than the task, the
    task cannot trace it."""
    user = None if is_stack_dump_request(request) else request["user"]
    if not sandbox.is_nested:
        groups = user[2] if user else [int(group) for group in sandbox.status["Groups"].split()]
        os.setgroups(groups)
    allowed = request["capabilities"] if os.getuid() == 0 and not user else 0
    bounding = int(sandbox.status["CapBnd"], 16)
    if is_stack_dump_request(request) and _read_permitted_capabilities() & _CAP_SYS_PTRACE:
        allowed |= _CAP_SYS_PTRACE
        bounding |= _CAP_SYS_PTRACE
    for number in range(64):
        if not bounding >> number & 1 and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # above the last capability of this kernel
    call_prctl(PR_CAP_AMBIENT, _AMBIENT_CLEAR)
    if user:
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
    _set_capabilities(allowed)
    for number in range(64):
        if allowed >> number & 1:
            call_prctl(PR_CAP_AMBIENT, _AMBIENT_RAISE, number)
    call_prctl(PR_SET_NO_NEW_PRIVS, 1)
    call_prctl(PR_SET_DUMPABLE, 0)  # a change of privileges may have reset it
    if request["seccomp"]:
        _install_seccomp_filter(request["seccomp"])


def _set_capabilities(allowed: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    low, high = allowed & 0xFFFFFFFF, allowed >> 32
    check_syscall_result(libc.capset(header, (ctypes.c_uint32 * 6)(low, low, low, high, high, high)))


def _read_permitted_capabilities() -> int:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    found = (ctypes.c_uint32 * 6)()
    check_syscall_result(libc.capget(header, found))
    return found[1] | found[4] << 32


class _BpfProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _install_seccomp_filter(steps: bytes) -> None:
    check_syscall_result(
        libc.prctl(PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_BpfProgram(len(steps) // 8, steps)), 0, 0)
    )


def copy_limits(child: int, sandbox: TaskSandbox) -> None:
    for kind, limits in sandbox.limits:
        try:
            resource.prlimit(child, kind, limits)
        except ProcessLookupError:
            raise
        except (OSError, ValueError):
            continue  # raising it is denied: ours is lower


def limit_stack_dump() -> None:
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_AS, _MAX_DUMP_MEMORY)


def lower_limit(kind: int, most: int) -> None:
    now = resource.getrlimit(kind)[1]
    limit = most if now == resource.RLIM_INFINITY else min(now, most)
    resource.setrlimit(kind, (limit, limit))
