"""A filter of system calls that no task needs: a BPF program for bubblewrap. Pure.

The list follows the usual defaults of containers. Everything that a debugger or a profiler of one's own processes needs
stays allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_INSTRUCTION_FORMAT = struct.Struct("HBBI")
_OP_LOAD = 0x20  # load a word of seccomp_data into the accumulator
_OP_IF_EQUAL = 0x15
_OP_IF_AT_LEAST = 0x35
_OP_IF_ANY_BIT = 0x45
_OP_RETURN = 0x06

_NUMBER_OFFSET, _ARCH_OFFSET, _ARG0_OFFSET, _ARG1_OFFSET, _ARG2_OFFSET = (
    0,
    4,
    16,
    24,
    32,
)  # offsets of low words; both machines are little-endian
_RETURN_ALLOW = 0x7FFF0000
_RETURN_EPERM = 0x00050001
_RETURN_ENOSYS = 0x00050026  # callers fall back to an older call
_RETURN_EPROTONOSUPPORT = 0x0005005D
_RETURN_EAFNOSUPPORT = 0x00050061

_NEW_NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_X32_BIT = 0x40000000
_TERMINAL_INJECTION_REQUESTS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
# AF_ALG, which has let tasks write to read-only files; AF_VSOCK, which leads to the hypervisor.
_REFUSED_FAMILIES = (38, 40)
_AF_NETLINK, _NETLINK_AUDIT = 16, 9

# Newer calls have the same number on all architectures.
_COMMON_CALLS = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
_CLONE3 = 435

_X86_64_CALLS = {
    "uselib": 134, "pivot_root": 155, "adjtimex": 159, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173, "create_module": 174,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212,
    "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308,
    "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "syslog": 103,
}  # fmt: skip
_AARCH64_CALLS = {
    "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42, "quotactl": 60, "acct": 89,
    "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "reboot": 142,
    "settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
    "swapoff": 225, "perf_event_open": 241, "name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266,
    "setns": 268, "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip

# audit architecture, refused calls, ioctl, clone, unshare, socket, socketpair
_MACHINE_TABLES = {
    "x86_64": (0xC000003E, _X86_64_CALLS, 16, 56, 272, 41, 53),
    "aarch64": (0xC00000B7, _AARCH64_CALLS, 29, 220, 97, 198, 199),
}


def build_seccomp_filter(machine: str) -> bytes | None:
    """Return the program for a `platform.machine()`; None if we have no table for it."""
    if machine not in _MACHINE_TABLES:
        return None
    return b"".join(_INSTRUCTION_FORMAT.pack(*step) for step in _iter_instructions(machine))


def _iter_instructions(machine: str) -> Iterator[tuple[int, int, int, int]]:
    arch, table, ioctl, clone, unshare, *sockets = _MACHINE_TABLES[machine]
    yield _OP_LOAD, 0, 0, _ARCH_OFFSET
    yield _OP_IF_EQUAL, 1, 0, arch
    yield _OP_RETURN, 0, 0, _RETURN_ENOSYS
    yield _OP_LOAD, 0, 0, _NUMBER_OFFSET
    if machine == "x86_64":
        yield _OP_IF_AT_LEAST, 0, 1, _X32_BIT
        yield _OP_RETURN, 0, 0, _RETURN_ENOSYS
    for number in sorted({**table, **_COMMON_CALLS}.values()):
        yield _OP_IF_EQUAL, 0, 1, number
        yield _OP_RETURN, 0, 0, _RETURN_EPERM
    yield _OP_IF_EQUAL, 0, 1, _CLONE3  # its flags are in memory, which a filter cannot read
    yield _OP_RETURN, 0, 0, _RETURN_ENOSYS
    for number in (clone, unshare):
        yield _OP_IF_EQUAL, 0, 4, number
        yield _OP_LOAD, 0, 0, _ARG0_OFFSET
        yield _OP_IF_ANY_BIT, 0, 1, _NEW_NAMESPACE_FLAGS
        yield _OP_RETURN, 0, 0, _RETURN_EPERM
        yield _OP_RETURN, 0, 0, _RETURN_ALLOW
    for number in sockets:
        yield _OP_IF_EQUAL, 0, 10, number
        yield from _iter_socket_instructions()
    yield _OP_IF_EQUAL, 0, 5, ioctl
    yield _OP_LOAD, 0, 0, _ARG1_OFFSET
    for request in _TERMINAL_INJECTION_REQUESTS:
        yield _OP_IF_EQUAL, 0, 1, request
        yield _OP_RETURN, 0, 0, _RETURN_EPERM
    yield _OP_RETURN, 0, 0, _RETURN_ALLOW


def _iter_socket_instructions() -> Iterator[tuple[int, int, int, int]]:
    """Yield ten steps. A denied socket looks like one that the kernel does not support: programs that optionally write
    to the audit log, such as sudo, continue without it."""
    yield _OP_LOAD, 0, 0, _ARG0_OFFSET
    for family in _REFUSED_FAMILIES:
        yield _OP_IF_EQUAL, 0, 1, family
        yield _OP_RETURN, 0, 0, _RETURN_EAFNOSUPPORT
    yield _OP_IF_EQUAL, 0, 3, _AF_NETLINK
    yield _OP_LOAD, 0, 0, _ARG2_OFFSET
    yield _OP_IF_EQUAL, 0, 1, _NETLINK_AUDIT
    yield _OP_RETURN, 0, 0, _RETURN_EPROTONOSUPPORT
    yield _OP_RETURN, 0, 0, _RETURN_ALLOW
