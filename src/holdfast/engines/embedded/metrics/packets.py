"""Counts what the tasks of a control group send and receive, packet by packet, in the kernel: a small BPF program that
hangs on the parent of all tasks' groups of version 2 and adds up bytes for each of them.

It is exact whatever comes and goes, and knows every protocol; but only root may do it. Once there it stays with its
group, so that a restarted server finds it, by its name, and what it has counted meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from .traffic import Flow

_CALL = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}.get(platform.machine(), 0)
_MAP_CREATE, _MAP_LOOKUP, _PROG_LOAD, _PROG_ATTACH = 0, 1, 5, 8
_PROG_BY_ID, _MAP_BY_ID, _INFO, _PROG_QUERY = 13, 14, 15, 16
_LRU_HASH, _CGROUP_SKB = 9, 8  # of maps, of programs
_DIRECTIONS = (0, 1)  # BPF_CGROUP_INET_INGRESS, BPF_CGROUP_INET_EGRESS
_BESIDE_OTHERS = 2  # BPF_F_ALLOW_MULTI
_NAMES = (b"holdfast_in_1", b"holdfast_out_1")  # with a version: of what is counted, and how. 15 characters at most
_GROUPS = 1 << 16  # the longest unused make room for others
_MOST_PROGRAMS = 64  # on one group
_INFO_SIZE = 128

_libc = ctypes.CDLL(None, use_errno=True)


class PacketCounter:
    """What has been counted for the groups below one folder."""

    def __init__(self, folder: str) -> None:
        """OSError where it may not be done, or the kernel cannot do it."""
        self._counts = _find_counts(folder)
        if self._counts < 0:
            self._counts = _begin(folder)

    def read(self, group: int) -> Flow:
        """Of the group whose folder has that number."""
        key, value = ctypes.create_string_buffer(struct.pack("=Q", group), 8), ctypes.create_string_buffer(16)
        try:
            _bpf(_MAP_LOOKUP, struct.pack("=IxxxxQQQ", self._counts, ctypes.addressof(key), ctypes.addressof(value), 0))
        except FileNotFoundError:
            return Flow()
        return Flow(*struct.unpack("=QQ", value.raw))

    def close(self) -> None:
        if self._counts >= 0:
            os.close(self._counts)
            self._counts = -1


def open_counter(folder: str) -> PacketCounter | None:
    try:
        return PacketCounter(folder) if _CALL else None
    except OSError:
        return None


def _bpf(command: int, attributes: bytes) -> int:
    given = ctypes.create_string_buffer(attributes, max(len(attributes), 128))
    answer = int(_libc.syscall(_CALL, command, given, len(given)))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return answer


@contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


# --- one that is there already ------------------------------------------------------------------------------------


def _find_counts(folder: str) -> int:
    """The map of the program that hangs there; -1 when there is none."""
    with _opened(folder) as group:
        ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
        query = ctypes.create_string_buffer(
            struct.pack("=IIIIQI", group, _DIRECTIONS[1], 0, 0, ctypes.addressof(ids), _MOST_PROGRAMS), 128
        )
        if _libc.syscall(_CALL, _PROG_QUERY, query, len(query)) < 0:
            return -1
        (count,) = struct.unpack_from("=I", query, 24)
        found = [_counts_of(number) for number in ids[:count]]
    return next((counts for counts in found if counts >= 0), -1)


def _counts_of(program: int) -> int:
    fd = _bpf(_PROG_BY_ID, struct.pack("=I", program))
    try:
        maps = (ctypes.c_uint32 * 1)()
        info = ctypes.create_string_buffer(_INFO_SIZE)
        struct.pack_into("=IQ", info, 52, 1, ctypes.addressof(maps))
        _bpf(_INFO, struct.pack("=IIQ", fd, _INFO_SIZE, ctypes.addressof(info)))
        name = info.raw[64:80].rstrip(b"\0")
        return _bpf(_MAP_BY_ID, struct.pack("=I", maps[0])) if name == _NAMES[1] and maps[0] else -1
    finally:
        os.close(fd)


# --- a new one ----------------------------------------------------------------------------------------------------


def _begin(folder: str) -> int:
    counts = _bpf(_MAP_CREATE, struct.pack("=IIIIIII16s", _LRU_HASH, 8, 16, _GROUPS, 0, 0, 0, b"holdfast"))
    try:
        with _opened(folder) as group:
            for direction, name in zip(_DIRECTIONS, _NAMES, strict=True):
                _attach(group, counts, direction, name)
    except OSError:
        os.close(counts)
        raise
    return counts


def _attach(group: int, counts: int, direction: int, name: bytes) -> None:
    steps = _render(counts, 8 * direction)
    code, terms = ctypes.create_string_buffer(steps, len(steps)), ctypes.create_string_buffer(b"Apache-2.0")
    program = _bpf(
        _PROG_LOAD,
        struct.pack(
            "=IIQQIIQII16sII",
            *(_CGROUP_SKB, len(steps) // 8, ctypes.addressof(code), ctypes.addressof(terms)),
            *(0, 0, 0, 0, 0, name, 0, direction),
        ),
    )
    try:
        _bpf(_PROG_ATTACH, struct.pack("=IIII", group, program, direction, _BESIDE_OTHERS))
    finally:
        os.close(program)


def _render(counts: int, offset: int) -> bytes:
    """For each packet: find the entry of its group, make it if need be, add the packet's length. All packets pass."""
    look_up = [
        _step(0xBF, 2, 10), _step(0x07, 2, imm=-8),  # r2 = the key, on the stack
        *_load_map(counts), _step(0x85, imm=1),  # r0 = bpf_map_lookup_elem(r1, r2)
    ]  # fmt: skip
    make = [
        _step(0x7A, 10, off=-24), _step(0x7A, 10, off=-16),  # a value of zeros, on the stack
        _step(0xBF, 2, 10), _step(0x07, 2, imm=-8),
        _step(0xBF, 3, 10), _step(0x07, 3, imm=-24),
        _step(0xB7, 4, imm=1),  # BPF_NOEXIST: somebody else may be quicker
        *_load_map(counts), _step(0x85, imm=2),  # bpf_map_update_elem(r1, r2, r3, r4)
        *look_up,
        _step(0x15, 0, off=1),  # no room: skip the next
    ]  # fmt: skip
    return b"".join(
        [
            _step(0xBF, 6, 1), _step(0x61, 7, 6),  # r7 = the packet's length
            _step(0x85, imm=79), _step(0x7B, 10, 0, off=-8),  # bpf_skb_cgroup_id, to the stack
            *look_up,
            _step(0x55, 0, off=len(make)),  # there: skip the making
            *make,
            _step(0xDB, 0, 7, off=offset),  # *(r0 + offset) += r7, as one act
            _step(0xB7, 0, imm=1), _step(0x95),  # let it pass
        ]
    )  # fmt: skip


def _step(code: int, target: int = 0, source: int = 0, off: int = 0, imm: int = 0) -> bytes:
    return struct.pack("=BBhi", code, source << 4 | target, off, imm)


def _load_map(counts: int) -> list[bytes]:
    """r1 = the map; an instruction of two parts."""
    return [_step(0x18, 1, 1, imm=counts), _step(0)]
