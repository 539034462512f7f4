"""Static executables of a few instructions that make system calls and execute their arguments. Pure.

An image need not contain any program that can do it, and those of the machine need its libraries. So they are assembled
here. If a step fails, the program says so and exits with 126.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import ClassVar

FAILURE_CODE = 126
BASE = 0x400000  # where a program is loaded
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT_HEADER = struct.Struct("<IIQQQQQQ")
HEADERS_SIZE = _ELF_HEADER.size + 2 * _SEGMENT_HEADER.size
_EXECUTABLE, _LOAD, _STACK, _READ_EXECUTE, _READ_WRITE = 2, 1, 0x6474E551, 5, 6
_PAGE_SIZE = 0x10000  # the largest of any supported machine


class X86Code:
    """Instructions for x86-64."""

    machine = 62
    system_calls: ClassVar = {
        "setgroups": 116, "setresgid": 119, "setresuid": 117, "capset": 126, "execve": 59, "write": 1,
        "exit": 60, "rt_sigaction": 13, "prctl": 157, "seccomp": 317,
    }  # fmt: skip
    _SYSCALL = b"\x0f\x05"
    _MOVES = (b"\xbf", b"\xbe", b"\xba", b"\x41\xba", b"\x41\xb8")  # mov edi / esi / edx / r10d / r8d, imm32

    def call(self, name: str, *arguments: int) -> bytes:
        loads = (move + struct.pack("<I", value) for move, value in zip(self._MOVES, arguments, strict=False))
        return b"".join(loads) + b"\xb8" + struct.pack("<I", self.system_calls[name]) + self._SYSCALL

    def jump_if_failed(self, distance: int) -> bytes:
        """Jump over `distance` bytes unless the result is 0."""
        return b"\x85\xc0\x0f\x85" + struct.pack("<i", distance)  # test eax, eax; jnz

    def load_arguments(self, env: int | None) -> bytes:
        """Load the arguments of execve. `env`: the address of its variables; None: those of this program."""
        program = (
            b"\x48\x8b\x04\x24"  # mov rax, [rsp]: argc
            b"\x48\x8d\x74\x24\x10"  # lea rsi, [rsp + 16]: argv + 1
            b"\x48\x8b\x3e"  # mov rdi, [rsi]: argv[1]
        )
        if env is not None:
            return program + self._MOVES[2] + struct.pack("<I", env)
        return program + b"\x48\x8d\x54\xc4\x10"  # lea rdx, [rsp + rax * 8 + 16]: envp


class ArmCode:
    """Instructions for AArch64."""

    machine = 183
    system_calls: ClassVar = {
        "setgroups": 159, "setresgid": 149, "setresuid": 147, "capset": 91, "execve": 221, "write": 64,
        "exit": 93, "rt_sigaction": 134, "prctl": 167, "seccomp": 277,
    }  # fmt: skip

    def call(self, name: str, *arguments: int) -> bytes:
        loads = (self._move(register, value) for register, value in enumerate(arguments))
        return b"".join(loads) + self._move(8, self.system_calls[name]) + struct.pack("<I", 0xD4000001)  # svc #0

    def _move(self, register: int, value: int) -> bytes:
        low, high = value & 0xFFFF, value >> 16
        return struct.pack("<II", 0x52800000 | low << 5 | register, 0x72A00000 | high << 5 | register)  # movz, movk

    def jump_if_failed(self, distance: int) -> bytes:
        return struct.pack("<I", 0x35000000 | (distance // 4 + 1) << 5)  # cbnz w0

    def load_arguments(self, env: int | None) -> bytes:
        program = struct.pack(
            "<III",
            0xF94003E3,  # ldr x3, [sp]: argc
            0x910043E1,  # add x1, sp, #16: argv + 1
            0xF9400020,  # ldr x0, [x1]: argv[1]
        )
        if env is not None:
            return program + self._move(2, env)
        return program + struct.pack("<I", 0x8B030C22)  # add x2, x1, x3, lsl #3: envp


MachineCode = X86Code | ArmCode
_CODE_BY_MACHINE: dict[str, Callable[[], MachineCode]] = {"x86_64": X86Code, "aarch64": ArmCode}
SUPPORTED_MACHINES = tuple(_CODE_BY_MACHINE)


def get_machine_code(machine: str) -> MachineCode:
    """Return the instructions for a supported machine, as `platform.machine` names it."""
    return _CODE_BY_MACHINE[machine]()


def join_steps(code: MachineCode, steps: Sequence[bytes], tail: bytes, message: tuple[int, int]) -> bytes:
    """Return the steps and what follows them; a step that fails jumps to the end. `message`: address and length of the
    text that it writes there."""
    failure = code.call("write", 2, *message) + code.call("exit", FAILURE_CODE)
    built = tail
    for step in reversed(steps):
        built = step + code.jump_if_failed(len(built)) + built
    return built + failure


def build_headers(machine: int, size: int) -> bytes:
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")  # 64 bits, little-endian, version 1
    entry = BASE + HEADERS_SIZE
    elf = _ELF_HEADER.pack(
        identity, _EXECUTABLE, machine, 1, entry, _ELF_HEADER.size, 0, 0, _ELF_HEADER.size, _SEGMENT_HEADER.size, 2,
        0, 0, 0,
    )  # fmt: skip
    load = _SEGMENT_HEADER.pack(_LOAD, _READ_EXECUTE, 0, BASE, BASE, size, size, _PAGE_SIZE)
    return elf + load + _SEGMENT_HEADER.pack(_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16)


def align(offset: int) -> int:
    return -(-offset // 16) * 16


def pack_capabilities(mask: int) -> bytes:
    """Return the header and the data of capset; no capability is inheritable."""
    low, high = mask & 0xFFFFFFFF, mask >> 32
    return struct.pack("<Ii6I", 0x20080522, 0, low, low, 0, high, high, 0)
