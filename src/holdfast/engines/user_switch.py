"""A program that becomes another user and executes its arguments, for tasks of images with a user. Pure.

An image need not contain any program that can do it, and those of the machine need its libraries. So it is assembled
here: a static executable of about 30 instructions that contains the ids. Its steps are setgroups, setresgid, setresuid,
capset (no capability stays, not even an inheritable one) and execve(argv[1], argv + 1, envp); if one fails it says so
and exits with 126. It can contain the environment too, so that whatever starts it as root has no variable of the job.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import ClassVar

from .task_user import TaskUser

FAILURE_CODE = 126
_FAILURE_MESSAGE = b"holdfast: cannot run the command as the image's user.\n"
_NO_CAPABILITIES = struct.pack("<Ii6I", 0x20080522, 0, 0, 0, 0, 0, 0, 0)  # the header and the data of capset
_BASE = 0x400000  # where it is loaded
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT_HEADER = struct.Struct("<IIQQQQQQ")
_HEADERS_SIZE = _ELF_HEADER.size + 2 * _SEGMENT_HEADER.size
_EXECUTABLE, _LOAD, _STACK, _READ_EXECUTE, _READ_WRITE = 2, 1, 0x6474E551, 5, 6
_PAGE_SIZE = 0x10000  # the largest of any supported machine


class _X86Code:
    """Instructions for x86-64."""

    machine = 62
    system_calls: ClassVar = {
        "setgroups": 116, "setresgid": 119, "setresuid": 117, "capset": 126, "execve": 59, "write": 1,
        "exit": 60,
    }  # fmt: skip
    _SYSCALL = b"\x0f\x05"
    _MOVES = (b"\xbf", b"\xbe", b"\xba")  # mov edi / esi / edx, imm32

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


class _ArmCode:
    """Instructions for AArch64."""

    machine = 183
    system_calls: ClassVar = {
        "setgroups": 159, "setresgid": 149, "setresuid": 147, "capset": 91, "execve": 221, "write": 64,
        "exit": 93,
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


_CODE_BY_MACHINE: dict[str, Callable[[], _X86Code | _ArmCode]] = {"x86_64": _X86Code, "aarch64": _ArmCode}


def supports_user_switch(machine: str) -> bool:
    return machine in _CODE_BY_MACHINE


def build_user_switch(user: TaskUser, machine: str, env: Mapping[str, str] | None = None) -> bytes:
    """Return the executable for a supported machine, as `platform.machine` names it. `env`: the environment of what it
    executes; None: its own."""
    code = _CODE_BY_MACHINE[machine]()
    data_at = _align(_HEADERS_SIZE + len(_build_code(code, user, 0, env is not None)))
    address = _BASE + data_at
    body = _build_code(code, user, address, env is not None).ljust(data_at - _HEADERS_SIZE, b"\0")
    body += _build_data(user) + _build_env(env or {}, address + len(_build_data(user)))
    return _build_headers(code.machine, _HEADERS_SIZE + len(body)) + body


def _build_data(user: TaskUser) -> bytes:
    groups = struct.pack(f"<{len(user.groups)}I", *user.groups)
    data = _NO_CAPABILITIES + _FAILURE_MESSAGE + groups
    return data.ljust(_align(len(data)), b"\0")


def _build_env(env: Mapping[str, str], address: int) -> bytes:
    """Return the variables for execve, at this address: pointers, a null pointer, and the texts."""
    texts = [f"{name}={value}".encode("utf-8", "surrogateescape") + b"\0" for name, value in env.items()]
    first = address + 8 * (len(texts) + 1)
    starts = accumulate((len(text) for text in texts), initial=first)
    pointers = [start for start, _ in zip(starts, texts, strict=False)]
    return struct.pack(f"<{len(pointers) + 1}Q", *pointers, 0) + b"".join(texts)


def _build_code(code: _X86Code | _ArmCode, user: TaskUser, data: int, has_env: bool) -> bytes:
    """Return the instructions; their length does not depend on the address of the data."""
    text = data + len(_NO_CAPABILITIES)
    steps = [
        code.call("setgroups", len(user.groups), text + len(_FAILURE_MESSAGE)),
        code.call("setresgid", user.gid, user.gid, user.gid),
        code.call("setresuid", user.uid, user.uid, user.uid),
        code.call("capset", data, data + 8),
    ]
    env = data + len(_build_data(user)) if has_env else None
    tail = code.load_arguments(env) + code.call("execve")
    failure = code.call("write", 2, text, len(_FAILURE_MESSAGE)) + code.call("exit", FAILURE_CODE)
    built = tail
    for step in reversed(steps):
        built = step + code.jump_if_failed(len(built)) + built
    return built + failure


def _build_headers(machine: int, size: int) -> bytes:
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")  # 64 bits, little-endian, version 1
    entry = _BASE + _HEADERS_SIZE
    elf = _ELF_HEADER.pack(
        identity, _EXECUTABLE, machine, 1, entry, _ELF_HEADER.size, 0, 0, _ELF_HEADER.size, _SEGMENT_HEADER.size, 2,
        0, 0, 0,
    )  # fmt: skip
    load = _SEGMENT_HEADER.pack(_LOAD, _READ_EXECUTE, 0, _BASE, _BASE, size, size, _PAGE_SIZE)
    return elf + load + _SEGMENT_HEADER.pack(_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16)


def _align(offset: int) -> int:
    return -(-offset // 16) * 16
