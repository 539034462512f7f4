"""A connection: lines come in, text goes out."""

import contextlib
import socket
import struct
import threading
import time
from typing import Optional

EVENTS = "#holdfast json"  # a client's first line, if it wants to be told where the program stands
_LONGEST_LINE = 64 * 1024


class Client:
    """A connection: lines come in, text goes out."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self.connection = connection
        self.name = name
        self.since = time.time()
        self.wants_events = False
        self.leaving = False  # it will send no more, but may still read
        self.fresh = True  # it has sent nothing but its token
        self._received = b""
        self._sending = threading.RLock()  # a signal may come while it is held
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # A client that does not read must not hold the program up for good.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))

    def send(self, text: str) -> bool:
        try:
            with self._sending:
                self.connection.sendall(text.encode("utf-8", "replace"))
            return True
        except OSError:
            return False

    def asks_for_events(self) -> bool:
        """Whether it has sent the line already that asks for them; takes that line."""
        if self._received.partition(b"\n")[0].strip() == EVENTS.encode() and b"\n" in self._received:
            self.read_line()
            return True
        return False

    def read_line(self) -> Optional[str]:
        """The next line, or `\\x03` for Ctrl-C, which takes back what was typed before it; None: no more will come."""
        while b"\n" not in self._received and b"\x03" not in self._received:
            data = self._receive()
            if not data or len(self._received) > _LONGEST_LINE:
                rest, self._received = self._received, b""
                return rest.decode("utf-8", "replace") if rest and not data else None
            self._received += data
        if b"\x03" in self._received:
            self._received = self._received.rpartition(b"\x03")[2].lstrip(b"\r\n")
            return "\x03"
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    def _receive(self) -> bytes:
        try:
            return self.connection.recv(4096)
        except OSError:
            return b""

    def hang_up(self) -> None:
        """Also where a forked child has a copy of the connection. Whoever reads from it notices."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.hang_up()
        self.connection.close()
