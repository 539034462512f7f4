"""Connection to the process that holds the server's ports while no server runs: see runtime/port_holder.py."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .binding import BoundSocket

log = logging.getLogger(__name__)

SOCKET_NAME = "ports.sock"
LOCK_NAME = "ports.lock"
ANSWER_TIMEOUT = 5.0  # seconds; the holder answers immediately
MIN_RESTART_DELAY, MAX_RESTART_DELAY = 0.1, 60.0  # seconds until a new holder is started
MAX_SOCKETS = 64
MAX_MESSAGE_SIZE = 16 * 1024  # bytes
_RUNTIME_FOLDER = str(Path(__file__).parents[1] / "runtime")
# Imported, not run as a script: Python then uses cached bytecode. Compiling would keep memory allocated.
_HOLDER_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); import port_holder; port_holder.main()"


class HolderConnection:
    """Connection to the holder. While it is open, this process serves the ports; closing it means the server ended."""

    def __init__(self, peer: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.peer = peer
        self._process = process  # if it is our child process

    def receive_sockets(self) -> dict[str, socket.socket]:
        """Return the sockets that it holds, by endpoint key. Blocking; raises OSError without an answer."""
        self.peer.settimeout(ANSWER_TIMEOUT)
        self.peer.send(b"take")
        message, fds, _, _ = socket.recv_fds(self.peer, MAX_MESSAGE_SIZE, MAX_SOCKETS)
        sockets = [socket.socket(fileno=fd) for fd in fds]
        keys = message.decode().split("\n")[1:]
        if not message.startswith(b"held") or len(keys) != len(sockets):
            for each in sockets:
                each.close()
            raise ConnectionError("the port holder exited")
        for each in sockets:
            each.setblocking(False)
        return dict(zip(keys, sockets, strict=True))

    def send_sockets(self, sockets: Mapping[str, socket.socket]) -> None:
        """Send these sockets, by endpoint key, to replace all it holds. It answers `kept` when it has them."""
        message = "\n".join(["keep", *sockets])
        socket.send_fds(self.peer, [message.encode()], [each.fileno() for each in sockets.values()])

    def replace_sockets(self, sockets: Mapping[str, socket.socket]) -> None:
        """Send these sockets and wait until the others are closed. Blocking; raises OSError without an answer."""
        self.send_sockets(sockets)
        self.peer.recv(MAX_MESSAGE_SIZE)

    def close(self) -> None:
        """Close the connection; idempotent."""
        self.peer.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0)  # a running one continues, and init reaps it


def connect_to_holder(home: Path) -> HolderConnection | None:
    """Connect to the holder of this state folder; None if there is none."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(ANSWER_TIMEOUT)
    try:
        folder = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            peer.connect(f"/proc/self/fd/{folder}/{SOCKET_NAME}")  # the full path can be too long for a socket
        finally:
            os.close(folder)
    except OSError:
        peer.close()
        return None
    return HolderConnection(peer)


def start_holder(home: Path) -> HolderConnection:
    """Start a holder in its own session. Blocking; raises OSError if one exists or it cannot be started."""
    lock = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _HOLDER_PROGRAM,
                _RUNTIME_FOLDER,
                str(home),
                str(theirs.fileno()),
                str(lock),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
            pass_fds=(theirs.fileno(), lock),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(lock)
    return HolderConnection(ours, process)


def find_holder_pid(home: Path) -> int | None:
    """Return the process ID of the holder of this state folder; None if there is none."""
    try:
        with open(home / LOCK_NAME, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(OSError, ValueError):
            return int((home / LOCK_NAME).read_text())
    except OSError:
        pass
    return None


def receive_held_sockets(home: Path) -> tuple[HolderConnection | None, dict[str, socket.socket]]:
    """Return the connection to the holder, if there is one, and its sockets. Blocking."""
    found = connect_to_holder(home)
    if found is None:
        return None, {}
    try:
        return found, found.receive_sockets()
    except OSError:  # it exited in the meantime
        found.close()
        return None, {}


class HolderSupervisor:
    """Keeps a holder with the server's sockets running as long as the server runs."""

    def __init__(self, home: Path, bound: Sequence[BoundSocket], connection: HolderConnection | None) -> None:
        self._home = home
        self._bound = bound
        self._connection = connection
        self._delay = MIN_RESTART_DELAY

    async def run(self) -> None:
        while True:
            try:
                if self._connection is None:
                    self._connection = await _start_holder_in_thread(self._home)
                await self._hand_over_sockets(self._connection)
            except OSError as error:
                why = error.strerror or str(error)
                log.warning("cannot start the port holder", extra={"event": "port-holder", "error": why})
            self.release_holder()
            await asyncio.sleep(self._delay)
            self._delay = min(MAX_RESTART_DELAY, self._delay * 2)

    async def _hand_over_sockets(self, connection: HolderConnection) -> None:
        """Send the sockets; return or raise when the holder has exited."""
        connection.peer.setblocking(False)
        connection.send_sockets({each.endpoint.key: each.socket for each in self._bound})
        while message := await _receive_message(connection.peer):
            if message == b"kept":
                self._delay = MIN_RESTART_DELAY
        log.warning("the port holder exited; starting another", extra={"event": "port-holder"})

    def release_holder(self) -> None:
        """Let the holder answer on the ports, because the server stops; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def _start_holder_in_thread(home: Path) -> HolderConnection:
    """Start a holder in a thread; close it if the caller is cancelled."""
    work = asyncio.ensure_future(asyncio.to_thread(start_holder, home))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(_close_started_holder)
        raise


def _close_started_holder(work: asyncio.Future[HolderConnection]) -> None:
    if not work.cancelled() and work.exception() is None:
        work.result().close()


async def _receive_message(peer: socket.socket) -> bytes:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(peer, readable.set)
    try:
        await readable.wait()
        return peer.recv(64)
    except ConnectionError:
        return b""
    finally:
        loop.remove_reader(peer)
