"""Closes connections that send a request slowly, or none at all.

Each uses a file descriptor before authentication. A connection whose request is being processed is not touched, however
long that takes.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import OrderedDict

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.services.client_network import get_network_or_loopback

log = logging.getLogger(__name__)

HEADERS_TIMEOUT = 20.0  # seconds from the first byte of a request, or from the connection, to the end of the headers
SMALL_BODY_SIZE = 1024 * 1024  # bytes
SMALL_BODY_TIMEOUT = 60.0  # seconds from the headers to the end of a small body, or of the body of an unknown sender
BODY_TIMEOUT = 75.0  # seconds without a byte of a larger body of a known sender
MAX_WAITING_CONNECTIONS = (
    100  # connections of one address without the headers of a request; with one more, the oldest is closed
)
LOG_INTERVAL = 60.0  # seconds

SENDER_KNOWN_KEY = "holdfast.sender_known"  # in the scope: to be called once the sender of a body is authenticated


def get_max_connections() -> int:
    """Return the maximum number of open connections: half of the process's file limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 if limit == resource.RLIM_INFINITY else max(1, limit // 2)


def get_max_unfinished_per_network() -> int:
    """Return the maximum number of connections of one address with an incomplete body."""
    return max(1, get_max_connections() // 2)


class _ConnectionSet:
    """Connections in one state, in the order they entered it."""

    def __init__(self) -> None:
        self._all: OrderedDict[BoundedHttpProtocol, None] = OrderedDict()
        self._by_network: dict[str, OrderedDict[BoundedHttpProtocol, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, one: BoundedHttpProtocol, limit: int | None) -> None:
        """Add a connection; with more than `limit` of one network, close its oldest."""
        same = self._by_network.setdefault(one.network, OrderedDict())
        same[one] = self._all[one] = None
        if limit is not None and len(same) > limit:
            next(iter(same)).abort_connection()

    def remove(self, one: BoundedHttpProtocol) -> None:
        del self._all[one]
        same = self._by_network[one.network]
        del same[one]
        if not same:
            del self._by_network[one.network]

    def close_oldest(self) -> bool:
        if not self._all:
            return False
        next(iter(self._all)).abort_connection()
        return True


_waiting_connections = _ConnectionSet()  # waiting for request headers
_unfinished_connections = _ConnectionSet()  # with an incomplete body of an unknown sender
_idle_connections = _ConnectionSet()  # after a response


class _OverloadLog:
    def __init__(self) -> None:
        self._next = float("-inf")

    def log_overload(self, now: float) -> None:
        if now >= self._next:
            self._next = now + LOG_INTERVAL
            log.warning("too many connections: closing the oldest unused ones", extra={"event": "connections"})


_overload_log = _OverloadLog()


class BoundedHttpProtocol(HttpToolsProtocol):
    _timer: asyncio.TimerHandle | None = None
    _has_headers = False  # of the newest request
    _is_body_incomplete = False
    _body_size = 0  # received bytes of it
    _is_known = False  # whether its sender is known
    _state: _ConnectionSet | None = None  # None: a request is being processed, or a known sender's body arrives
    network = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.network = get_network_or_loopback(self.client[0]) if self.client else ""
        if len(self.connections) <= get_max_connections() or self._close_idle_connection():
            self._start_headers_wait()
        else:
            self.abort_connection()

    def data_received(self, data: bytes) -> None:
        if self._state is _idle_connections:
            self._leave_state()
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # it is now a WebSocket
            self._stop_waiting()
        elif self._is_body_incomplete:
            self._start_body_wait()
        elif self._is_idle() and self._timer is None:
            self._start_headers_wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_headers = self._is_known = False
        self._body_size = 0
        self.scope[SENDER_KNOWN_KEY] = self._mark_sender_known  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._has_headers = self._is_body_incomplete = True
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_body_incomplete = False
        self._stop_waiting()
        super().on_message_complete()
        if self._has_answered():
            self._enter_state(_idle_connections)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_idle():
            return
        if not self._has_headers:  # the next request has begun, with a timeout of its own
            self._unset_keepalive_if_required()
            self._start_headers_wait()
        elif not self._is_body_incomplete:
            self._enter_state(_idle_connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_body_incomplete = False
        self._stop_waiting()
        super().connection_lost(exc)

    def abort_connection(self) -> None:
        self._stop_waiting()
        self.transport.abort()  # nothing is left to send, and a client that does not read would keep it open

    # -- between requests, and within one

    def _close_idle_connection(self) -> bool:
        """Close an idle connection; return False when there is none."""
        _overload_log.log_overload(self.loop.time())
        return max(_waiting_connections, _unfinished_connections, _idle_connections, key=len).close_oldest()

    def _is_idle(self) -> bool:
        """Return whether no request is being processed."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def _has_answered(self) -> bool:
        """Return whether the request was answered before its body was complete."""
        return self.cycle is not None and self._is_idle()

    def _start_headers_wait(self) -> None:
        self._start_timer(HEADERS_TIMEOUT)
        self._enter_state(_waiting_connections, MAX_WAITING_CONNECTIONS)

    def _start_body_wait(self) -> None:
        if self._is_known and self._has_large_body():
            self._start_timer(BODY_TIMEOUT)
        elif self._timer is None:
            self._start_timer(SMALL_BODY_TIMEOUT)
        if not self._is_known and self._state is not _unfinished_connections:
            self._enter_state(_unfinished_connections, get_max_unfinished_per_network())

    def _has_large_body(self) -> bool:
        announced = next((value for name, value in self.headers if name == b"content-length"), b"0")
        return self._body_size > SMALL_BODY_SIZE or (announced.isdigit() and int(announced[:20]) > SMALL_BODY_SIZE)

    def _mark_sender_known(self) -> None:
        self._is_known = True
        if self._is_body_incomplete:
            self._leave_state()
            self._start_body_wait()

    def _stop_waiting(self) -> None:
        self._stop_timer()
        self._leave_state()

    def _enter_state(self, state: _ConnectionSet, limit: int | None = None) -> None:
        self._leave_state()
        self._state = state
        state.add(self, limit)

    def _leave_state(self) -> None:
        if self._state is not None:
            self._state.remove(self)
            self._state = None

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._handle_timeout, seconds)

    def _handle_timeout(self, seconds: float) -> None:
        if self._is_body_incomplete and self.flow.read_paused:  # we have paused reading
            self._start_timer(seconds)
        else:
            self.abort_connection()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
