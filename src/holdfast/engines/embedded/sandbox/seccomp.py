"""A filter of system calls that no task needs: a BPF program for bubblewrap. Pure.

The list follows the usual defaults of containers. Everything that a debugger or a profiler of one's own processes needs
stays allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_INSTRUCTION = struct.Struct("HBBI")
_LOAD = 0x20  # load a word of seccomp_data into the accumulator
_IF_EQUAL = 0x15
_IF_AT_LEAST = 0x35
_IF_ANY_BIT = 0x45
_RETURN = 0x06

_NUMBER, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32  # offsets of low words; both machines are little-endian
_ALLOW = 0x7FFF0000
_RETURN_EPERM = 0x00050001  # EPERM
_RETURN_ENOSYS = 0x00050026  # ENOSYS: callers fall back to an older call
_NO_PROTOCOL = 0x0005005D  # EPROTONOSUPPORT
_NO_FAMILY = 0x00050061  # EAFNOSUPPORT

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_X32 = 0x40000000
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
# AF_ALG, which has let tasks write to read-only files; AF_VSOCK, which leads to the hypervisor.
_REFUSED_FAMILIES = (38, 40)
_NETLINK, _AUDIT = 16, 9  # AF_NETLINK; NETLINK_AUDIT

# Newer calls have the same number on all architectures.
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
_CLONE3 = 435

_X86_64 = {
    "uselib": 134, "pivot_root": 155, "adjtimex": 159, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173, "create_module": 174,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212,
    "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308,
    "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "syslog": 103,
}  # fmt: skip
_AARCH64 = {
    "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42, "quotactl": 60, "acct": 89,
    "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "reboot": 142,
    "settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
    "swapoff": 225, "perf_event_open": 241, "name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266,
    "setns": 268, "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip

# audit architecture, refused calls, ioctl, clone, unshare, socket, socketpair
_MACHINES = {
    "x86_64": (0xC000003E, _X86_64, 16, 56, 272, 41, 53),
    "aarch64": (0xC00000B7, _AARCH64, 29, 220, 97, 198, 199),
}


def render_filter(machine: str) -> bytes | None:
    """Return the program for a `platform.machine()`; None if we have no table for it."""
    if machine not in _MACHINES:
        return None
    return b"".join(_INSTRUCTION.pack(*step) for step in _make_program(machine))


def _make_program(machine: str) -> Iterator[tuple[int, int, int, int]]:
    arch, table, ioctl, clone, unshare, *sockets = _MACHINES[machine]
    yield _LOAD, 0, 0, _ARCH
    yield _IF_EQUAL, 1, 0, arch
    yield _RETURN, 0, 0, _RETURN_ENOSYS
    yield _LOAD, 0, 0, _NUMBER
    if machine == "x86_64":
        yield _IF_AT_LEAST, 0, 1, _X32
        yield _RETURN, 0, 0, _RETURN_ENOSYS
    for number in sorted({**table, **_EVERYWHERE}.values()):
        yield _IF_EQUAL, 0, 1, number
        yield _RETURN, 0, 0, _RETURN_EPERM
    yield _IF_EQUAL, 0, 1, _CLONE3  # its flags are in memory, which a filter cannot read
    yield _RETURN, 0, 0, _RETURN_ENOSYS
    for number in (clone, unshare):
        yield _IF_EQUAL, 0, 4, number
        yield _LOAD, 0, 0, _ARG0
        yield _IF_ANY_BIT, 0, 1, _NEW_NAMESPACES
        yield _RETURN, 0, 0, _RETURN_EPERM
        yield _RETURN, 0, 0, _ALLOW
    for number in sockets:
        yield _IF_EQUAL, 0, 10, number
        yield from _filter_socket()
    yield _IF_EQUAL, 0, 5, ioctl
    yield _LOAD, 0, 0, _ARG1
    for request in _TERMINAL_INJECTION:
        yield _IF_EQUAL, 0, 1, request
        yield _RETURN, 0, 0, _RETURN_EPERM
    yield _RETURN, 0, 0, _ALLOW


def _filter_socket() -> Iterator[tuple[int, int, int, int]]:
    """Yield ten steps. A denied socket looks like one that the kernel does not support: programs that optionally write
    to the audit log, such as sudo, continue without it."""
    yield _LOAD, 0, 0, _ARG0
    for family in _REFUSED_FAMILIES:
        yield _IF_EQUAL, 0, 1, family
        yield _RETURN, 0, 0, _NO_FAMILY
    yield _IF_EQUAL, 0, 3, _NETLINK
    yield _LOAD, 0, 0, _ARG2
    yield _IF_EQUAL, 0, 1, _AUDIT
    yield _RETURN, 0, 0, _NO_PROTOCOL
    yield _RETURN, 0, 0, _ALLOW
