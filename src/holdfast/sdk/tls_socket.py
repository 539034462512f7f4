"""A TLS socket that one thread can read while another writes.

OpenSSL allows one call at a time on a connection. A write during a blocking read can be lost or break the connection.
Here each call is non-blocking under a lock, and waiting happens outside of it.
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
    """The socket methods that websockets uses, on a connection after the handshake."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._timeout: float | None = None
        self._lock = threading.Lock()
        self._polling_thread_count = 0  # threads that poll the descriptor: it must not be closed and reused
        self._closed = False

    def recv(self, size: int) -> bytes:
        """Return received data; empty at the end or after `close`."""
        try:
            return self._call_locked(lambda: self._socket.recv(size), self._compute_deadline())
        except OSError:
            if self._closed:
                return b""
            raise

    def sendall(self, data: bytes) -> None:
        left, until = memoryview(data), self._compute_deadline()
        while left:
            left = left[self._call_locked(lambda rest=left: self._socket.send(rest), until) :]  # type: ignore[misc]

    def settimeout(self, seconds: float | None) -> None:
        """Set the timeout of later calls in seconds; None: no limit."""
        self._timeout = seconds

    def shutdown(self, how: int) -> None:
        """Shut down the TCP connection, so that received data can still be read."""
        socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        """Close the socket and end calls of other threads. Idempotent."""
        with self._lock:
            self._closed = True
            with suppress(OSError):
                self.shutdown(socket.SHUT_RDWR)  # wakes waiting threads
            self._close_if_unused()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def _call_locked(self, call: Callable[[], T], until: float | None) -> T:
        while True:
            with self._lock:
                if self._closed:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                try:
                    return call()
                except ssl.SSLWantReadError:
                    event = select.POLLIN
                except ssl.SSLWantWriteError:
                    event = select.POLLOUT
                self._polling_thread_count += 1
            try:
                self._wait_for_event(event, until)
            finally:
                with self._lock:
                    self._polling_thread_count -= 1
                    self._close_if_unused()

    def _wait_for_event(self, event: int, until: float | None) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        left = None if until is None else max(0.0, until - time.monotonic())
        if not poll.poll(None if left is None else left * 1000):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def _compute_deadline(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def _close_if_unused(self) -> None:
        if self._closed and not self._polling_thread_count:
            self._socket.close()
