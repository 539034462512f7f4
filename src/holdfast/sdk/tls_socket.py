"""A TLS connection that one thread reads while another writes.

OpenSSL allows one call at a time on a connection, and a blocking read is a call that lasts: a write meanwhile may be
lost, or break the connection. Here each call is short, and waiting happens outside of it.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class TlsSocket:
    """What websockets needs of a socket, on a connection whose handshake is done."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._timeout: float | None = None
        self._turn = threading.Lock()
        self._waiting = 0  # threads that poll the descriptor: it must not be reused meanwhile
        self._closed = False

    def recv(self, size: int) -> bytes:
        """Return what has arrived; nothing at the end, or after `close`."""
        try:
            return self._call(lambda: self._socket.recv(size), self._deadline())
        except OSError:
            if self._closed:
                return b""
            raise

    def sendall(self, data: bytes) -> None:
        left, until = memoryview(data), self._deadline()
        while left:
            left = left[self._call(lambda rest=left: self._socket.send(rest), until) :]  # type: ignore[misc]

    def settimeout(self, seconds: float | None) -> None:
        """Limit each later call to so many seconds; None: no limit."""
        self._timeout = seconds

    def shutdown(self, how: int) -> None:
        """Shut down the connection below TLS, so that what arrives can still be read."""
        socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        """Close it, and end the calls of other threads. Harmless twice."""
        with self._turn:
            self._closed = True
            with suppress(OSError):
                self.shutdown(socket.SHUT_RDWR)  # wakes waiting threads
            self._release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def _call(self, call: Callable[[], T], until: float | None) -> T:
        while True:
            with self._turn:
                if self._closed:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                try:
                    return call()
                except ssl.SSLWantReadError:
                    event = select.POLLIN
                except ssl.SSLWantWriteError:
                    event = select.POLLOUT
                self._waiting += 1
            try:
                self._wait(event, until)
            finally:
                with self._turn:
                    self._waiting -= 1
                    self._release()

    def _wait(self, event: int, until: float | None) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        left = None if until is None else max(0.0, until - time.monotonic())
        if not poll.poll(None if left is None else left * 1000):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def _deadline(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def _release(self) -> None:
        if self._closed and not self._waiting:
            self._socket.close()
