"""Listens on a port and authenticates clients by the token."""

import contextlib
import errno
import hmac
import os
import socket
import threading
import time
from typing import Callable, Dict, List, Optional

from .client import Client
from .task_environment import find_task_port, get_or_create_token, get_task_address, get_wait_timeout, write_log

THREAD_NAME = "paipdb"  # of every thread that paipdb starts
_MAX_UNAUTHENTICATED = 8  # connections
_TOKEN_TIMEOUT = 60.0  # seconds
_MAX_TOKEN_ATTEMPTS = 3


class Listener:
    def __init__(self, get_refusal: Callable[[], str], serve_client: Callable[[Client], None]) -> None:
        """`get_refusal` returns why a client cannot attach now, or an empty text. `serve_client` is called for each
        authenticated client, in a separate thread."""
        self.token = get_or_create_token()
        self.port = 0  # the latest one
        self.address = ""
        self.is_local = False  # only reachable from this machine
        self._get_refusal = get_refusal
        self._serve_client = serve_client
        self._sockets: Dict[int, socket.socket] = {}  # by port
        self._requested_port: Optional[int] = None
        self._lock = threading.RLock()  # reentrant: a signal handler may run while it is held
        self._unauthenticated: List[Client] = []

    def open(self, requested_port: Optional[int]) -> None:
        """Listen on the requested port, the task's port, or a free one. Raise OSError if none is available."""
        with self._lock:
            if self._sockets and requested_port in (None, self._requested_port):
                return
            port = requested_port if requested_port is not None else find_task_port()
            if port is None or port not in self._sockets:
                self._start_listening(port)
            self._requested_port = requested_port

    def _start_listening(self, port: Optional[int]) -> None:
        server_socket = _try_listen(port) if port is not None else None
        self.is_local = server_socket is None
        self.address = "127.0.0.1" if self.is_local else get_task_address()
        server_socket = server_socket or _open_listening_socket("127.0.0.1", 0)
        self.port = server_socket.getsockname()[1]
        self._sockets[self.port] = server_socket
        values = (self.address, self.port, get_wait_timeout())
        write_log("debug host ip is set to {}, port is set to {}, timeout is set to {:g}".format(*values))
        write_log("paipdb is running on {}:{}".format(*values[:2]))
        start_thread(self._accept_clients, server_socket)

    def _accept_clients(self, server_socket: socket.socket) -> None:
        while True:
            try:
                connection, address = server_socket.accept()
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):
                    return  # closed
                time.sleep(0.1)
                continue
            try:
                start_thread(self._handle_client, Client(connection, "{}:{}".format(*address[:2])))
            except (OSError, RuntimeError):  # the client has disconnected, or the interpreter is shutting down
                connection.close()

    def _handle_client(self, client: Client) -> None:
        try:
            if self._admit_client(client):
                self._serve_client(client)
            else:
                client.close()
        except Exception as error:  # a client must not break the program
            write_log(f"paipdb: {client.name}: {error!r}")
            client.close()

    def _admit_client(self, client: Client) -> bool:
        """Refuse the client, or ask for its token. Return whether it may attach."""
        refusal = self._get_refusal()
        if refusal:
            client.send(refusal)
            return False
        self._add_unauthenticated(client)
        try:
            client.connection.settimeout(_TOKEN_TIMEOUT)
            is_authenticated = not self.token or self._authenticate(client)
            client.connection.settimeout(None)
            return is_authenticated
        except OSError:
            return False
        finally:
            with self._lock:
                self._unauthenticated.remove(client)

    def _add_unauthenticated(self, client: Client) -> None:
        """Disconnect the oldest clients above the limit, so that idle connections cannot block others."""
        with self._lock:
            for oldest in self._unauthenticated[: 1 - _MAX_UNAUTHENTICATED]:
                oldest.shut_down()
            self._unauthenticated.append(client)

    def _authenticate(self, client: Client) -> bool:
        for remaining in reversed(range(_MAX_TOKEN_ATTEMPTS)):
            client.send("Token: ")
            line = client.read_line()
            if line is None:
                return False
            if hmac.compare_digest(line.strip().encode("utf-8"), self.token.encode("utf-8")):
                return True
            time.sleep(1.0)
            client.send(
                "That is not the token.%s\n" % ("" if remaining else " Look for it on the job's page, or in the log.")
            )
        return False

    @property
    def is_open(self) -> bool:
        return bool(self._sockets)

    def close(self, is_copy: bool = False) -> None:
        """Close the sockets. With `is_copy`, in a forked child, the parent continues to listen on its own."""
        for server_socket in self._sockets.values():
            with contextlib.suppress(OSError):
                if not is_copy:
                    server_socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
                server_socket.close()
        self._sockets.clear()


def _try_listen(port: int) -> Optional[socket.socket]:
    """Listen on all interfaces: a port that is requested by name or number is for clients on other machines."""
    try:
        return _open_listening_socket("0.0.0.0", port)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else error
        write_log(f"paipdb: port {port} cannot be had ({reason}); taking a free one")
        return None


def _open_listening_socket(address: str, port: int) -> socket.socket:
    server_socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind((address, port))
        server_socket.listen(16)
    except BaseException:
        server_socket.close()
        raise
    return server_socket


def start_thread(target: Callable[..., object], *args: object) -> None:
    threading.Thread(target=target, args=args, name=THREAD_NAME, daemon=True).start()
