"""Lists listening TCP sockets of this machine from /proc/net. Blocking."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_LISTEN_STATE = "0A"  # the state in those tables
_WORD_STRUCT = struct.Struct("=I")


class TcpListener(NamedTuple):
    address: str  # 0.0.0.0 and :: for all
    inode: int  # as in descriptors: socket:[INODE]
    port: int


def list_tcp_listeners(port: int | None = None) -> list[TcpListener]:
    """Return those on this port, or on any; at any address."""
    found: list[TcpListener] = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            found += [each for each in (_parse_line(line, port) for line in lines) if each is not None]
    return found


def _parse_line(line: str, port: int | None) -> TcpListener | None:
    words = line.split()
    if words[3] != _LISTEN_STATE:
        return None
    address, _, digits = words[1].partition(":")
    number = int(digits, 16)
    return TcpListener(parse_address(address), int(words[9]), number) if port in (None, number) else None


def parse_address(text: str) -> str:
    """Parse 32-bit words, each in the machine's byte order."""
    packed = b"".join(_WORD_STRUCT.pack(int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
