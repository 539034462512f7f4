"""WebSocket sessions with tasks: a command or shell, a port, a debugger. Synchronous only.

    with open_exec(find_address(), "train", argv=["nvidia-smi"]) as line:
        for message in line:
            ...

Messages are bytes, or dictionaries with control data; docs/reference/rest.md describes them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

from .address import Address
from .calls import Reply, build_path, parse_error
from .errors import ApiError, CannotConnect, UnexpectedReply
from .proof import needs_proof, run_proof_on_socket

if TYPE_CHECKING:
    import socket
    import ssl

    from websockets.http11 import Response
    from websockets.sync.client import ClientConnection

ANY_TASK = "-"  # a held task, else the first running one
OPEN_TIMEOUT = 10.0  # seconds
WINDOW_SIZE = 256 * 1024  # unacknowledged bytes in flight
MAX_MESSAGE_SIZE = 64 * 1024  # bytes of one message
ACK_THRESHOLD_SIZE = 32 * 1024  # bytes
CLOSE_CODE_BASE = 4000  # our WebSocket close codes: this plus an HTTP status


@dataclass(frozen=True, slots=True)
class Terminal:
    columns: int = 80
    rows: int = 24
    term: str = "xterm-256color"


@dataclass(frozen=True, slots=True)
class SessionTarget:
    """The task a session is connected to."""

    job: str
    task: str
    held: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


class TaskSession:
    """An open session. One thread receives; any other can send. Reading the next message acknowledges the previous
    one; the server sends at most one window ahead."""

    def __init__(
        self,
        address: Address,
        path: str,
        query: Mapping[str, str] | None = None,
        first: Mapping[str, Any] | None = None,
        *,
        marks: bool = False,
    ) -> None:
        """`first`: the first control message. `marks`: each binary message begins with a stream byte."""
        self._address = address
        self._has_stream_marks = marks
        self._resources = ExitStack()
        self._socket = self._resources.enter_context(_open_websocket(address, path, query or {}))
        self._received = 0
        self._acknowledged = 0
        self._window_changed = threading.Condition()
        self._sent = 0
        self._peer_acknowledged = 0
        self._closed = False
        self.target = self._start_session(first)

    def _start_session(self, first: Mapping[str, Any] | None) -> SessionTarget:
        try:
            if first is not None:
                self.send_message(**first)
            self.send_message(taken=0)  # enables acknowledgements
            message = self.receive()
        except BaseException:
            self.close()
            raise
        found = message.get("entered") if isinstance(message, dict) else None
        if not isinstance(found, dict):
            self.close()
            raise UnexpectedReply("The server did not report the task of this session")
        more = {key: value for key, value in found.items() if key not in ("job", "task", "held")}
        return SessionTarget(str(found.get("job")), str(found.get("task")), bool(found.get("held")), more)

    # -- receiving

    def receive(self) -> bytes | dict[str, Any] | None:
        """Return the next message; None at the end. ApiError if the server reports a reason."""
        from websockets.exceptions import ConnectionClosed

        while True:
            self._send_ack()
            try:
                message = self._socket.recv()
            except ConnectionClosed as error:
                self._mark_closed()
                self._raise_close_reason(error)
                return None
            if isinstance(message, bytes):
                self._received += len(message) - self._has_stream_marks
                return message
            control = _parse_control_message(message)
            if "error" in control:
                self._mark_closed()
                raise _build_refusal_error(control)
            if "taken" not in control:
                return control
            with self._window_changed:
                self._peer_acknowledged = max(self._peer_acknowledged, int(control["taken"]))
                self._window_changed.notify_all()

    def __iter__(self) -> Iterator[bytes | dict[str, Any]]:
        while (message := self.receive()) is not None:
            yield message

    def _send_ack(self) -> None:
        if self._received - self._acknowledged >= ACK_THRESHOLD_SIZE:
            self._acknowledged = self._received
            self.send_message(taken=self._acknowledged)

    def _raise_close_reason(self, error: Any) -> None:
        """Raise the reason of a close, unless it is a normal one."""
        closed = error.rcvd
        if closed is not None and closed.code == 1000:
            return
        if closed is not None and closed.code > CLOSE_CODE_BASE:
            raise ApiError(
                closed.reason or "The server closed the connection", code="", status=closed.code - CLOSE_CODE_BASE
            )
        reason = (closed.reason if closed is not None else "") or "the connection was lost"
        raise CannotConnect(self._address.url, reason, lost=True)

    # -- sending

    def send(self, data: bytes) -> bool:
        """Send bytes; wait while the window is full. False: the session has ended."""
        for at in range(0, len(data), MAX_MESSAGE_SIZE):
            piece = data[at : at + MAX_MESSAGE_SIZE]
            with self._window_changed:
                self._window_changed.wait_for(
                    lambda: self._closed or self._sent - self._peer_acknowledged < WINDOW_SIZE
                )
                self._sent += len(piece)
            if not self._send_frame(piece):
                return False
        return True

    def send_message(self, **message: Any) -> bool:
        return self._send_frame(json.dumps(message))

    def _send_frame(self, message: bytes | str) -> bool:
        from websockets.exceptions import ConnectionClosed

        try:
            if not self._closed:
                self._socket.send(message)
        except (ConnectionClosed, OSError):
            self._mark_closed()
        return not self._closed

    def _mark_closed(self) -> None:
        with self._window_changed:
            self._closed = True
            self._window_changed.notify_all()

    def interrupt(self) -> None:
        """End the wait of the receiving thread, from another one."""
        self._mark_closed()
        self._socket.close()

    def close(self) -> None:
        """Close the session. Idempotent."""
        self._mark_closed()
        self._resources.close()

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
) -> TaskSession:
    """Run a command in a task, or a login shell if neither `argv` nor `script` is given. Without a terminal, binary
    messages begin with 1 for stdout or 2 for stderr. The last message is {"exit": status}."""
    first: dict[str, Any] = {"argv": list(argv), "script": script, "env": dict(env or {})}
    if terminal is not None:
        first["terminal"] = {"columns": terminal.columns, "rows": terminal.rows, "term": terminal.term}
    return TaskSession(address, _build_task_path(ref, task, "exec"), first=first, marks=terminal is None)


def open_port(address: Address, ref: str, task: str | None, port: int | str) -> TaskSession:
    """Connect to a port of a task, by number or name. {"end": true} closes one direction."""
    return TaskSession(address, _build_task_path(ref, task, "ports", str(port)))


def open_debugger(
    address: Address, ref: str, task: str | None = None, *, id: str | None = None, wait: float = 0.0
) -> TaskSession:
    """Attach to a waiting debugger; wait up to `wait` seconds for one. `entered.more["debugger"]` describes it."""
    query = {"wait": f"{wait:g}"} | ({"id": id} if id else {})
    return TaskSession(address, _build_task_path(ref, task, "debugger"), query)


def _build_task_path(ref: str, task: str | None, *segments: str) -> str:
    return "/api/v1" + build_path("jobs", ref, "tasks", task or ANY_TASK, *segments)


# -- connecting


def _open_websocket(address: Address, path: str, query: Mapping[str, str]) -> ClientConnection:
    from websockets.exceptions import InvalidHandshake
    from websockets.sync.client import connect

    address.require_running_server()
    uses_tls, headers = address.url.startswith("https:"), address.build_headers()
    agent = headers.pop("User-Agent")  # has a parameter of its own
    try:
        return connect(
            "ws" + address.url.removeprefix("http") + path + (f"?{urlencode(query)}" if query else ""),
            ssl=_load_ssl_context(address.url) if uses_tls else None,
            additional_headers=headers,
            user_agent_header=agent,
            compression=None,
            sock=_open_proven_socket(address) if needs_proof(address) else None,
            proxy=True if uses_tls else None,  # as httpx_adapter.should_use_proxy
            open_timeout=OPEN_TIMEOUT,
            close_timeout=1.0,
            max_size=2 * MAX_MESSAGE_SIZE,
            max_queue=None,  # limited by the window
            create_connection=_make_connection_class(),
        )
    except (OSError, InvalidHandshake) as error:
        raise address.build_connection_error(_describe_connection_error(error)) from None


def _open_proven_socket(address: Address) -> socket.socket:
    """Connect and verify that the server knows the token."""
    import socket

    parts = urlsplit(address.url)
    connected = socket.create_connection((parts.hostname or "", parts.port or 80), OPEN_TIMEOUT)
    try:
        run_proof_on_socket(connected, address)
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected


def _make_connection_class() -> type[ClientConnection]:
    """It follows no redirects, which could leak input, and supports concurrent reads and writes over TLS."""
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
                raise _parse_handshake_error(error.response) from None

    return Connection


def _parse_handshake_error(response: Response) -> ApiError | UnexpectedReply:
    found = parse_error(Reply(response.status_code, {}, bytes(response.body or b"")))
    if isinstance(found, ApiError):
        return found
    return UnexpectedReply(
        f"The server rejected the WebSocket connection (HTTP {response.status_code})",
        hint="Check that server and proxy support WebSockets; the server may be an older version.",
    )


def _load_ssl_context(url: str) -> ssl.SSLContext:
    from .httpx_adapter import create_ssl_context  # slow to load

    return create_ssl_context(url)


def _describe_connection_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no response within {OPEN_TIMEOUT:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return str(error) or type(error).__name__


# -- control messages


def _parse_control_message(message: str) -> dict[str, Any]:
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnexpectedReply("The server sent a control message that is not a JSON object")
    return found


def _build_refusal_error(message: Mapping[str, Any]) -> ApiError:
    """Build the error of a message after which the server closes the connection."""
    code, hint = str(message.get("code") or ""), message.get("hint")
    return ApiError(str(message["error"]), code=code, status=0, hint=str(hint) if hint else None)
