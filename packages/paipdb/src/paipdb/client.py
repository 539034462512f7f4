"""A client of the debugger: its TCP connection, read by lines."""

import contextlib
import socket
import struct
import threading
import time
from typing import Optional

EVENTS_REQUEST = "#holdfast json"  # first line of a client that wants events about the program's location
_MAX_LINE_SIZE = 64 * 1024  # bytes


class Client:
    """A TCP connection that is read by lines and written as text."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self.connection = connection
        self.name = name
        self.connected_at = time.time()
        self.wants_events = False
        self.is_input_closed = False  # it sends no more lines, but may still read
        self.awaits_first_line = True  # nothing but the token was received
        self._received = b""
        self._send_lock = threading.RLock()  # reentrant: a signal handler may send while it is held
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # A client that does not read must not block the program forever.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))

    def send(self, text: str) -> bool:
        """Send the text. Return False if the connection is broken."""
        try:
            with self._send_lock:
                self.connection.sendall(text.encode("utf-8", "replace"))
            return True
        except OSError:
            return False

    def consume_events_request(self) -> bool:
        """Remove the request for events from the received lines. Return whether it was the first of them."""
        if self._received.partition(b"\n")[0].strip() == EVENTS_REQUEST.encode() and b"\n" in self._received:
            self.read_line()
            return True
        return False

    def read_line(self) -> Optional[str]:
        """Return the next line, `\\x03` for Ctrl-C, or None at the end of input. Ctrl-C drops all input before it."""
        while b"\n" not in self._received and b"\x03" not in self._received:
            data = self._receive()
            if not data or len(self._received) > _MAX_LINE_SIZE:
                last_line, self._received = self._received, b""
                return last_line.decode("utf-8", "replace") if last_line and not data else None
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

    def shut_down(self) -> None:
        """End the connection, even if a forked child has a copy of the socket. A blocked reader returns."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.shut_down()
        self.connection.close()
