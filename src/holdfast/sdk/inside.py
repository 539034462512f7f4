"""Lines into tasks, over WebSockets: a command or shell, a port, a debugger. For plain code; each line is blocking.

    with open_exec(find_address(), "train", argv=["nvidia-smi"]) as line:
        for message in line:
            ...

What comes is bytes, or words: dictionaries. The REST API's page on lines into tasks says which there are.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

from holdfast import __version__

from .address import Address, hint_for
from .errors import ApiError, CannotConnect, UnexpectedReply
from .exchange import Reply, api_error, segment
from .proof import needs_proof, prove_socket

if TYPE_CHECKING:
    import socket
    import ssl

    from websockets.http11 import Response
    from websockets.sync.client import ClientConnection

ANY_TASK = "-"  # the one that is held, else the first that runs
OPEN_TIMEOUT = 10.0  # seconds
WINDOW = 256 * 1024  # bytes on their way, of which the other side has not said that they were taken
MAX_SIZE = 64 * 1024  # bytes of one message
TELL_AFTER = 32 * 1024
OWN_CODES = 4000  # codes of a socket's end from here on are ours: this and an HTTP status


@dataclass(frozen=True, slots=True)
class Terminal:
    columns: int = 80
    rows: int = 24
    term: str = "xterm-256color"


@dataclass(frozen=True, slots=True)
class Entered:
    """Where a line leads."""

    job: str
    task: str
    held: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


class Line:
    """An open line. One thread receives; any other may send. Bytes that were received count as taken when the next
    message is asked for, and the other side sends only so many ahead."""

    def __init__(
        self,
        address: Address,
        path: str,
        query: Mapping[str, str] | None = None,
        first: Mapping[str, Any] | None = None,
        *,
        marks: bool = False,
    ) -> None:
        """`first` is said before anything else. `marks`: each message of bytes begins with one that is no part of
        them."""
        self._address = address
        self._marks = marks
        self._held = ExitStack()
        self._socket = self._held.enter_context(_connect(address, path, query or {}))
        self._received = 0
        self._told = 0
        self._room = threading.Condition()
        self._sent = 0
        self._seen = 0
        self._over = False
        self.entered = self._begin(first)

    def _begin(self, first: Mapping[str, Any] | None) -> Entered:
        try:
            if first is not None:
                self.tell(**first)
            self.tell(taken=0)  # from now on we say so
            words = self.receive()
        except BaseException:
            self.close()
            raise
        found = words.get("entered") if isinstance(words, dict) else None
        if not isinstance(found, dict):
            self.close()
            raise UnexpectedReply("The server did not say where the line leads")
        more = {key: value for key, value in found.items() if key not in ("job", "task", "held")}
        return Entered(str(found.get("job")), str(found.get("task")), bool(found.get("held")), more)

    # -- what comes

    def receive(self) -> bytes | dict[str, Any] | None:
        """The next bytes or words; None at the end. ApiError where the server says why it ends."""
        from websockets.exceptions import ConnectionClosed

        while True:
            self._say_taken()
            try:
                message = self._socket.recv()
            except ConnectionClosed as error:
                self._end()
                self._last(error)
                return None
            if isinstance(message, bytes):
                self._received += len(message) - self._marks
                return message
            words = _read(message)
            if "error" in words:
                self._end()
                raise _refusal(words)
            if "taken" not in words:
                return words
            with self._room:
                self._seen = max(self._seen, int(words["taken"]))
                self._room.notify_all()

    def __iter__(self) -> Iterator[bytes | dict[str, Any]]:
        while (message := self.receive()) is not None:
            yield message

    def _say_taken(self) -> None:
        if self._received - self._told >= TELL_AFTER:
            self._told = self._received
            self.tell(taken=self._told)

    def _last(self, error: Any) -> None:
        """A line that was closed on purpose has just ended."""
        closed = error.rcvd
        if closed is not None and closed.code == 1000:
            return
        if closed is not None and closed.code > OWN_CODES:
            raise ApiError(closed.reason or "The server closed the line", code="", status=closed.code - OWN_CODES)
        reason = (closed.reason if closed is not None else "") or "the line broke"
        raise CannotConnect(self._address.url, reason, lost=True)

    # -- what goes

    def send(self, data: bytes) -> bool:
        """Waits while the other side does not take what was sent. False: the line has ended."""
        for at in range(0, len(data), MAX_SIZE):
            piece = data[at : at + MAX_SIZE]
            with self._room:
                self._room.wait_for(lambda: self._over or self._sent - self._seen < WINDOW)
                self._sent += len(piece)
            if not self._put(piece):
                return False
        return True

    def tell(self, **words: Any) -> bool:
        return self._put(json.dumps(words))

    def _put(self, message: bytes | str) -> bool:
        from websockets.exceptions import ConnectionClosed

        try:
            if not self._over:
                self._socket.send(message)
        except (ConnectionClosed, OSError):
            self._end()
        return not self._over

    def _end(self) -> None:
        with self._room:
            self._over = True
            self._room.notify_all()

    def close(self) -> None:
        """Hang up. Harmless twice."""
        self._end()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_exec(
    address: Address,
    ref: str,
    task: str | None = None,
    *,
    argv: Sequence[str] = (),
    script: str = "",
    env: Mapping[str, str] | None = None,
    terminal: Terminal | None = None,
) -> Line:
    """A command in a task, or a login shell where neither `argv` nor `script` is given. Without a terminal its bytes
    begin with 1 for stdout or 2 for stderr. Its last word is {"exit": status}."""
    first: dict[str, Any] = {"argv": list(argv), "script": script, "env": dict(env or {})}
    if terminal is not None:
        first["terminal"] = {"columns": terminal.columns, "rows": terminal.rows, "term": terminal.term}
    return Line(address, _path(ref, task, "exec"), first=first, marks=terminal is None)


def open_port(address: Address, ref: str, task: str | None, port: int | str) -> Line:
    """To what listens on a port of a task, by number or by the job's name for it. {"end": true} ends one direction."""
    return Line(address, _path(ref, task, f"ports/{segment(str(port))}"))


def open_debugger(
    address: Address, ref: str, task: str | None = None, *, id: str | None = None, wait: float = 0.0
) -> Line:
    """To a debugger that waits, or comes to wait within so many seconds. `entered.more["debugger"]` describes it."""
    query = {"wait": f"{wait:g}"} | ({"id": id} if id else {})
    return Line(address, _path(ref, task, "debugger"), query)


def _path(ref: str, task: str | None, what: str) -> str:
    return f"/api/v1/jobs/{segment(ref)}/tasks/{segment(task or ANY_TASK)}/{what}"


# -- connecting


def _connect(address: Address, path: str, query: Mapping[str, str]) -> ClientConnection:
    from websockets.exceptions import InvalidHandshake
    from websockets.sync.client import connect

    if not address.served:
        raise CannotConnect(address.url, "no server runs there", hint=hint_for(address))
    try:
        return connect(
            "ws" + address.url.removeprefix("http") + path + (f"?{urlencode(query)}" if query else ""),
            ssl=_trusted(address.url) if address.url.startswith("https:") else None,
            additional_headers={"Authorization": f"Bearer {address.token}"} if address.token else {},
            user_agent_header=f"holdfast/{__version__}",
            compression=None,
            sock=_proven_socket(address) if needs_proof(address) else None,
            proxy=True if address.url.startswith("https:") else None,  # as wire.uses_proxy
            open_timeout=OPEN_TIMEOUT,
            close_timeout=1.0,
            max_size=2 * MAX_SIZE,
            max_queue=None,  # the other side sends only so much ahead
            create_connection=_connection_class(),
        )
    except (OSError, InvalidHandshake) as error:
        raise CannotConnect(address.url, _reason(error), hint=hint_for(address)) from None


def _proven_socket(address: Address) -> socket.socket:
    """Connected to a server that knows our token."""
    import socket

    parts = urlsplit(address.url)
    connected = socket.create_connection((parts.hostname or "", parts.port or 80), OPEN_TIMEOUT)
    try:
        prove_socket(connected, address)
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected


def _connection_class() -> type[ClientConnection]:
    """A connection that follows no redirect, since a command and its input go where they were meant to go, and that can
    be read and written at the same time over TLS."""
    import ssl

    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import ClientConnection

    from .tls_socket import TlsSocket

    class Connection(ClientConnection):
        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            socket_like: Any = TlsSocket(sock) if isinstance(sock, ssl.SSLSocket) else sock
            super().__init__(socket_like, *args, **kwargs)

        def handshake(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().handshake(*args, **kwargs)
            except InvalidStatus as error:
                raise _no_line(error.response) from None

    return Connection


def _no_line(response: Response) -> ApiError | UnexpectedReply:
    """In the server's own words, or for what else answers there."""
    found = api_error(Reply(response.status_code, {}, bytes(response.body or b"")))
    if isinstance(found, ApiError):
        return found
    return UnexpectedReply(
        f"The server opens no line into tasks (HTTP {response.status_code})",
        hint="Is it an older version, or does a proxy in between not know WebSockets?",
    )


def _trusted(url: str) -> ssl.SSLContext:
    from .wire import trusted  # only here, for it is slow to load

    return trusted(url)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {OPEN_TIMEOUT:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    return str(error) or type(error).__name__


# -- what the server says


def _read(message: str) -> dict[str, Any]:
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnexpectedReply("The server said something that is no JSON object")
    return found


def _refusal(words: Mapping[str, Any]) -> ApiError:
    """The server closes the line right after these."""
    hint = words.get("hint")
    return ApiError(str(words["error"]), code=str(words.get("code") or ""), status=0, hint=str(hint) if hint else None)
