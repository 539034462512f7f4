"""Holds the server's ports while no server runs, so that no job can listen on them.

    python -I -S -c "import port_holder; port_holder.main()" STATE_FOLDER SERVER_FD LOCK_FD

The server starts it and connects to it: at first by a socket that it inherits (SERVER_FD), later by the Unix socket
`ports.sock` in the state folder. LOCK_FD holds the lock that only one holder of a state folder has. The server sends
its listening sockets (`keep`); after a restart it asks for them (`take`). The end of that connection is the end of the
server, also when it was killed. From then on every connection to a port is answered and closed at once. The ports stay
in the listening state all the time: a socket that listens is the only kind that nothing else can share, and the next
server goes on where the last one stopped.

It exits when no server is connected and no task of the state folder is alive: then no job can take a port.

Messages (SOCK_SEQPACKET), keys one to a line, sockets beside them in the same order:
    server: "keep\\nKEY\\nKEY"     holder: "kept"
    server: "take"               holder: "held\\nKEY\\nKEY"

It imports as little as possible: it may run for weeks, and should only need a few megabytes.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import struct
import sys
from _socket import AF_UNIX, CMSG_SPACE, SCM_RIGHTS, SO_PEERCRED, SOCK_CLOEXEC, SOCK_SEQPACKET, SOL_SOCKET, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SOCKETS = 64
MAX_MESSAGE_SIZE = 16 * 1024  # bytes
CLAIM_READ_SIZE = 4096  # bytes read of a task's claim
RECHECK_INTERVAL = 1000  # milliseconds; only for a task whose process is unknown
REQUEST_READ_SIZE = 64 * 1024  # bytes read of a request before the reply
SOCKET_NAME = "ports.sock"
_FLOCK_STRUCT = struct.Struct("hhqqi4x")
_PEER_CREDENTIALS_STRUCT = struct.Struct("3i")

_SERVER_STOPPED_BODY = (
    b'{"error": {"code": "server_stopped", "message": "The Holdfast server is stopped; jobs still run", "field": null, '
    b'"hint": "Start it with `holdfast up`, or try again later.", "request_id": ""}}'
)
REPLIES_BY_PROTOCOL = {
    b"http": b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
    b"Retry-After: 5\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
    % (len(_SERVER_STOPPED_BODY), _SERVER_STOPPED_BODY)
}


class PortHolderServer:
    def __init__(self, home: bytes, server: socket) -> None:
        self._home = home
        self._sockets: dict[bytes, socket] = {}  # by endpoint key
        self._server: socket | None = server
        self._task_pidfd: int | None = None  # pidfd of a live task, while no server is connected
        self._poll = select.poll()
        self._poll.register(server, select.POLLIN)
        self._listener = self._open_listener()
        self._poll.register(self._listener, select.POLLIN)
        self._poll_timeout = -1  # milliseconds until tasks are checked again; -1: until an event

    def _open_listener(self) -> socket:
        """Open the socket in the state folder, whose path may be longer than a socket address."""
        folder = os.open(self._home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        path = f"/proc/self/fd/{folder}/{SOCKET_NAME}"
        delete_file(path)
        door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
        door.bind(path)
        os.chmod(path, 0o600)
        door.listen(4)
        os.close(folder)
        return door

    def run(self) -> None:
        while self._server is not None or self._has_live_task():
            for fd, _ in self._poll.poll(self._poll_timeout):
                self._handle_event(fd)

    def _handle_event(self, fd: int) -> None:
        if self._server is not None and fd == self._server.fileno():
            self._handle_server_message(self._server)
        elif fd == self._listener.fileno():
            self._accept_server()
        elif self._server is None:
            for key, held in self._sockets.items():
                if fd == held.fileno():
                    answer_connection(held, REPLIES_BY_PROTOCOL.get(key.split(b" ")[0], b""))

    # -- the server

    def _accept_server(self) -> None:
        peer = accept_connection(self._listener)
        _, uid, _ = _PEER_CREDENTIALS_STRUCT.unpack(
            peer.getsockopt(SOL_SOCKET, SO_PEERCRED, _PEER_CREDENTIALS_STRUCT.size)
        )
        if uid != os.geteuid():
            peer.close()
            return
        if self._server is not None:  # it has ended, since the new one has its lock
            self._drop_server()
        self._server = peer
        self._poll.register(peer, select.POLLIN)
        self._stop_answering()

    def _handle_server_message(self, server: socket) -> None:
        try:
            message, fds = receive_message(server)
            if message == b"take":
                keys = list(self._sockets)
                send_message(server, b"\n".join([b"held", *keys]), [self._sockets[key].fileno() for key in keys])
            elif message.startswith(b"keep"):
                self._store_sockets(message.split(b"\n")[1:], fds)
                send_message(server, b"kept", [])
            else:
                self._drop_server()
        except OSError:
            self._drop_server()

    def _store_sockets(self, keys: list[bytes], fds: list[int]) -> None:
        if len(keys) != len(fds):
            for fd in fds:
                os.close(fd)
            return
        old = self._sockets
        self._sockets = {key: socket(fileno=fd) for key, fd in zip(keys, fds, strict=True)}
        for each in old.values():
            each.close()

    def _drop_server(self) -> None:
        assert self._server is not None
        self._poll.unregister(self._server)
        self._server.close()
        self._server = None
        self._start_answering()

    # -- while there is none

    def _start_answering(self) -> None:
        for held in self._list_answered_sockets():
            self._poll.register(held, select.POLLIN)

    def _stop_answering(self) -> None:
        for held in self._list_answered_sockets():
            self._poll.unregister(held)
        self._close_task_pidfd()

    def _list_answered_sockets(self) -> list[socket]:
        return [held for key, held in self._sockets.items() if b" serve" in key]

    def _close_task_pidfd(self) -> None:
        if self._task_pidfd is not None:
            self._poll.unregister(self._task_pidfd)
            os.close(self._task_pidfd)
            self._task_pidfd = None
        self._poll_timeout = -1

    def _has_live_task(self) -> bool:
        """Return whether a task is alive. Waiting for one is enough: no task starts without a server."""
        if self._task_pidfd is not None and not has_process_ended(self._task_pidfd):
            return True
        self._close_task_pidfd()
        for pid in iter_live_task_pids(self._home):
            self._task_pidfd = open_pidfd(pid)
            if self._task_pidfd is not None:
                self._poll.register(self._task_pidfd, select.POLLIN)
            else:
                self._poll_timeout = RECHECK_INTERVAL
            return True
        return False

    def close(self) -> None:
        """Close the ports first: when a new server finds the socket closed, it can bind them."""
        for held in self._sockets.values():
            held.close()
        delete_file(os.path.join(self._home, SOCKET_NAME.encode()))


def delete_file(path: str | bytes) -> None:
    try:  # noqa: SIM105 - contextlib takes memory
        os.unlink(path)
    except OSError:
        pass


def accept_connection(door: socket) -> socket:
    return socket(fileno=door._accept()[0])  # type: ignore[attr-defined]


def answer_connection(held: socket, reply: bytes) -> None:
    """Answer one connection and close it."""
    try:
        client = accept_connection(held)
    except OSError:
        return
    try:
        client.setblocking(False)
        client.send(reply)
        client.recv(REQUEST_READ_SIZE)  # closing with unread data would reset the connection
    except OSError:
        pass
    client.close()


def open_pidfd(pid: int) -> int | None:
    try:
        found = os.pidfd_open(pid)
    except OSError:
        return None
    if not has_process_ended(found):
        return found
    os.close(found)
    return None


def has_process_ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])


def iter_live_task_pids(home: bytes) -> Iterator[int]:
    """Yield the pids of live tasks; 0 for an unknown one."""
    engines = os.path.join(home, b"engines")
    for folder in (home, *(os.path.join(engines, name) for name in list_names(engines))):
        yield from iter_live_pids_of_engine(os.path.join(folder, b"tasks"))


def list_names(folder: bytes) -> list[bytes]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def iter_live_pids_of_engine(folder: bytes) -> Iterator[int]:
    for name in list_names(folder):
        for claim in (b"claim", b"revived/claim"):
            pid = find_claim_holder(os.path.join(folder, name, claim))
            if pid is not None:
                yield pid


def find_claim_holder(path: bytes) -> int | None:
    """Return the process that holds this claim: 0 if unknown, None if there is none. In a container no process can
    lock it: then the recorded process is checked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK_STRUCT.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        is_locked = _FLOCK_STRUCT.unpack(found)[0] != fcntl.F_UNLCK
        for line in os.pread(fd, CLAIM_READ_SIZE, 0).split(b"\n")[:-1]:
            words = line.split()
            if words[:1] == [b"run"] and words[1].isdigit():
                return int(words[1]) if is_locked or read_start_ticks(words[1]) == words[-1] else None
    except OSError:
        return None
    finally:
        os.close(fd)
    return 0 if is_locked else None


def read_start_ticks(pid: bytes) -> bytes | None:
    """Return the start time of a process, which no later process with the same pid has."""
    try:
        with open(b"/proc/%s/stat" % pid, "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def send_message(peer: socket, message: bytes, fds: list[int]) -> None:
    peer.sendmsg([message], [(SOL_SOCKET, SCM_RIGHTS, array.array("i", fds))] if fds else [])


def receive_message(peer: socket) -> tuple[bytes, list[int]]:
    """Return a message with its descriptors; an empty message is the end of the connection."""
    fds = array.array("i")
    message, extra, _, _ = peer.recvmsg(MAX_MESSAGE_SIZE, CMSG_SPACE(MAX_SOCKETS * fds.itemsize))
    for level, kind, data in extra:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    found = list(fds)
    for fd in found:
        os.set_inheritable(fd, False)
    return message, found


def main() -> None:
    home, server, lock = os.fsencode(sys.argv[1]), socket(fileno=int(sys.argv[2])), int(sys.argv[3])
    os.chdir("/")
    os.ftruncate(lock, 0)
    os.write(lock, b"%d\n" % os.getpid())
    holder = PortHolderServer(home, server)
    try:
        holder.run()
    finally:
        holder.close()
