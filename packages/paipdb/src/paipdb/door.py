"""Who may come in: listening on a port, asking for the token, turning away."""

import contextlib
import errno
import hmac
import os
import socket
import threading
import time
from typing import Callable, Dict, List, Optional

from .clients import Client
from .task import address_of_task, log, new_token, port_of_task, seconds_to_wait

THREADS = "paipdb"  # their name
_MOST_STRANGERS = 8  # connections that have not shown the token
_PATIENCE = 60.0  # seconds a stranger has for it, and tries:
_TRIES = 3


class Door:
    def __init__(self, busy: Callable[[], str], serve: Callable[[Client], None]) -> None:
        """`busy` says why nobody can be let in now, or nothing. `serve` is called with each client that knows the
        token, in a thread of its own."""
        self.token = new_token()
        self.number = 0  # the port to tell people
        self.address = ""
        self.is_local = False  # reached from this machine alone
        self._busy = busy
        self._serve = serve
        self._listeners: Dict[int, socket.socket] = {}
        self._asked: Optional[int] = None
        self._guard = threading.RLock()  # a signal may come while it is held
        self._strangers: List[Client] = []

    def open(self, asked: Optional[int]) -> None:
        """Listens on the port asked for, or on the task's, or on a free one. OSError: not even that can be had."""
        with self._guard:
            if self._listeners and asked in (None, self._asked):
                return
            wanted = asked if asked is not None else port_of_task()
            if wanted is None or wanted not in self._listeners:
                self._listen(wanted)
            self._asked = asked

    def _listen(self, wanted: Optional[int]) -> None:
        listener = _wanted(wanted) if wanted is not None else None
        self.is_local = listener is None
        self.address = "127.0.0.1" if self.is_local else address_of_task()
        listener = listener or _bound("127.0.0.1", 0)
        self.number = listener.getsockname()[1]
        self._listeners[self.number] = listener
        told = (self.address, self.number, seconds_to_wait())
        log("debug host ip is set to {}, port is set to {}, timeout is set to {:g}".format(*told))
        log("paipdb is running on {}:{}".format(*told[:2]))
        start_thread(self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, address = listener.accept()
            except OSError as problem:
                if problem.errno in (errno.EBADF, errno.EINVAL):
                    return  # closed
                time.sleep(0.1)
                continue
            try:
                start_thread(self._receive, Client(connection, "{}:{}".format(*address[:2])))
            except (OSError, RuntimeError):  # it has left again; or the interpreter is about to end
                connection.close()

    def _receive(self, client: Client) -> None:
        try:
            if self._lets_in(client):
                self._serve(client)
            else:
                client.close()
        except Exception as problem:  # nothing of a client's may trouble the program
            log(f"paipdb: {client.name}: {problem!r}")
            client.close()

    def _lets_in(self, client: Client) -> bool:
        refusal = self._busy()
        if refusal:
            client.send(refusal)
            return False
        self._add_stranger(client)
        try:
            client.connection.settimeout(_PATIENCE)
            known = not self.token or self._knows_token(client)
            client.connection.settimeout(None)
            return known
        except OSError:
            return False
        finally:
            with self._guard:
                self._strangers.remove(client)

    def _add_stranger(self, client: Client) -> None:
        """Too many of them: the first ones go, so that nobody can keep others out by doing nothing."""
        with self._guard:
            for oldest in self._strangers[: 1 - _MOST_STRANGERS]:
                oldest.hang_up()
            self._strangers.append(client)

    def _knows_token(self, client: Client) -> bool:
        for left in reversed(range(_TRIES)):
            client.send("Token: ")
            line = client.read_line()
            if line is None:
                return False
            if hmac.compare_digest(line.strip().encode("utf-8"), self.token.encode("utf-8")):
                return True
            time.sleep(1.0)
            client.send(
                "That is not the token.%s\n" % ("" if left else " Look for it on the job's page, or in the log.")
            )
        return False

    @property
    def is_open(self) -> bool:
        return bool(self._listeners)

    def close(self, is_copy: bool = False) -> None:
        """A forked child closes copies: the parent goes on listening."""
        for listener in self._listeners.values():
            with contextlib.suppress(OSError):
                if not is_copy:
                    listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that listens
                listener.close()
        self._listeners.clear()


def _wanted(number: int) -> Optional[socket.socket]:
    """On all interfaces: whoever asks for a port by its name or number means to reach it from elsewhere."""
    try:
        return _bound("0.0.0.0", number)
    except (OSError, OverflowError) as problem:
        why = os.strerror(problem.errno or 0) if isinstance(problem, OSError) else problem
        log(f"paipdb: port {number} cannot be had ({why}); taking a free one")
        return None


def _bound(address: str, number: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, number))
        listener.listen(16)
    except BaseException:
        listener.close()
        raise
    return listener


def start_thread(target: Callable[..., object], *args: object) -> None:
    threading.Thread(target=target, args=args, name=THREADS, daemon=True).start()
