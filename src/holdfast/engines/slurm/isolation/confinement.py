"""Small programs that the nodes run for isolated tasks. Pure.

Slurm sends a signal to every process of a job, and bubblewrap must survive it. So bubblewrap ignores signals, and the
first program inside restores their defaults: a shell could not. A session that joins the sandbox as root has all
capabilities; it drops those that the task does not have, and applies the same system call filter.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Callable

from holdfast.engines.static_program import (
    BASE,
    HEADERS_SIZE,
    MachineCode,
    align,
    build_headers,
    get_machine_code,
    join_steps,
    pack_capabilities,
)

RESTORED_SIGNALS = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM,
    signal.SIGPIPE,
)  # fmt: skip
_FAILURE_MESSAGE = b"holdfast: cannot run the command in the sandbox.\n"
_DEFAULT_ACTION = bytes(32)  # struct sigaction of the kernel, with SIG_DFL
_SIGNAL_SET_SIZE = 8  # bytes
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_SECCOMP_SET_MODE_FILTER = 1
_MAX_CAPABILITY = 63
_INSTRUCTION_SIZE = 8  # bytes of an instruction of a filter
_FILTER_HEADER = struct.Struct("<H6xQ")  # struct sock_fprog: the number of instructions, and their address
_CAPABILITY_NUMBERS = {
    "CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3, "CAP_FSETID": 4, "CAP_KILL": 5, "CAP_SETGID": 6,
    "CAP_SETUID": 7, "CAP_SETPCAP": 8, "CAP_SYS_CHROOT": 18, "CAP_SETFCAP": 31,
}  # fmt: skip


def build_start_program(machine: str) -> bytes:
    """Return a program that restores the defaults of signals and executes its arguments."""
    return _build_program(machine, b"", _list_signal_steps, lambda _: _DEFAULT_ACTION)


def build_join_program(machine: str, capabilities: tuple[str, ...], seccomp: bytes) -> bytes:
    """Return a program that also gives up what a task does not have: other capabilities, and system calls. `seccomp`:
    the filter; empty: none."""
    mask = sum(1 << _CAPABILITY_NUMBERS[name] for name in capabilities)
    sets = _DEFAULT_ACTION + pack_capabilities(mask)

    def list_steps(code: MachineCode, data: int) -> list[bytes]:
        limits = data + len(_DEFAULT_ACTION)
        steps = _list_signal_steps(code, data)
        steps.append(code.call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        steps.append(code.call("capset", limits, limits + 8))
        if seccomp:
            steps.append(code.call("seccomp", _SECCOMP_SET_MODE_FILTER, 0, data + len(sets)))
        return steps

    def make_data(address: int) -> bytes:
        program = address + len(sets) + _FILTER_HEADER.size
        return sets + _FILTER_HEADER.pack(len(seccomp) // _INSTRUCTION_SIZE, program) + seccomp

    # Without a check: a kernel does not know all of them, and a process without capabilities cannot drop any.
    code = get_machine_code(machine)
    dropped = (number for number in range(_MAX_CAPABILITY + 1) if not mask >> number & 1)
    drops = b"".join(code.call("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0) for number in dropped)
    return _build_program(machine, drops, list_steps, make_data)


def _list_signal_steps(code: MachineCode, data: int) -> list[bytes]:
    return [code.call("rt_sigaction", number, data, 0, _SIGNAL_SET_SIZE) for number in RESTORED_SIGNALS]


def _build_program(
    machine: str,
    prologue: bytes,
    list_steps: Callable[[MachineCode, int], list[bytes]],
    make_data: Callable[[int], bytes],
) -> bytes:
    """`list_steps` and `make_data` get the address of the data; their lengths do not depend on it."""
    code = get_machine_code(machine)
    text_at = len(make_data(0))

    def build_code(data: int) -> bytes:
        tail = code.load_arguments(None) + code.call("execve")
        message = (data + text_at, len(_FAILURE_MESSAGE))
        return prologue + join_steps(code, list_steps(code, data), tail, message)

    data_at = align(HEADERS_SIZE + len(build_code(0)))
    address = BASE + data_at
    body = build_code(address).ljust(data_at - HEADERS_SIZE, b"\0") + make_data(address) + _FAILURE_MESSAGE
    return build_headers(code.machine, HEADERS_SIZE + len(body)) + body
