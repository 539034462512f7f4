"""TCP sockets of this machine that listen, out of /proc/net. Blocking."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_LISTEN = "0A"  # the state in those tables
_WORD = struct.Struct("=I")


class TcpListener(NamedTuple):
    address: str  # 0.0.0.0 and :: for all
    inode: int  # by which descriptors name it: socket:[INODE]


def list_listeners(port: int) -> list[TcpListener]:
    """Those on this port, whatever their address."""
    found: list[TcpListener] = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            found += [each for each in (_read_line(line, port) for line in lines) if each is not None]
    return found


def _read_line(line: str, port: int) -> TcpListener | None:
    words = line.split()
    if words[3] != _LISTEN:
        return None
    address, _, number = words[1].partition(":")
    return TcpListener(_read_address(address), int(words[9])) if int(number, 16) == port else None


def _read_address(text: str) -> str:
    """Words of 32 bits, each in the machine's own byte order."""
    packed = b"".join(_WORD.pack(int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
