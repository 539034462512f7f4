"""Connections that send a request slowly, or none at all, are closed.

Each costs the server a file, of which there are only so many, before anybody is asked who they are. A connection with a
request that is being answered is not touched, however long that takes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_TIMEOUT = 20.0  # seconds from the first byte of a request, or from the connection, to the end of the headers
BODY_TIMEOUT = 75.0  # seconds without a byte of a body that is not complete
MAX_WAITING = 100  # connections of one address without the headers of a request; with one more, the oldest is closed

_waiting: dict[str, OrderedDict[BoundedHttpProtocol, None]] = {}  # by address, oldest first


class BoundedHttpProtocol(HttpToolsProtocol):
    _timer: asyncio.TimerHandle | None = None
    _has_headers = False  # of the newest request
    _body_left = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # it is a WebSocket by now
            self._stop_waiting()
        elif self._body_left:
            self._start_timer(BODY_TIMEOUT)
        elif self._is_idle() and self._timer is None:
            self._await_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_headers = False

    def on_headers_complete(self) -> None:
        self._has_headers = self._body_left = True
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._body_left = False
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._has_headers and self._is_idle():  # the next request has begun, and has the time of any other
            self._unset_keepalive_if_required()
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._body_left = False
        self._stop_waiting()
        super().connection_lost(exc)

    # -- between requests, and within one

    def _is_idle(self) -> bool:
        """No request is being answered."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def _await_headers(self) -> None:
        same = _waiting.setdefault(self._address, OrderedDict())
        same[self] = None
        if len(same) > MAX_WAITING:
            next(iter(same))._give_up()
        self._start_timer(HEADERS_TIMEOUT)

    def _stop_waiting(self) -> None:
        self._stop_timer()
        same = _waiting.get(self._address)
        if same is not None:
            same.pop(self, None)
            if not same:
                del _waiting[self._address]

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()  # nothing is left to be said, and one who does not read would hold it open

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""
