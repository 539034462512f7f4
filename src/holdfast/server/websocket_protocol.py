"""The WebSocket protocol with limits: a client that sends but does not read uses bounded memory and time. Pings are
answered before authentication."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

CLOSE_TIMEOUT = 60.0  # seconds for the client to read the rest, after we have closed


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """While the other side does not read, only its newest ping is kept, as RFC 6455, 5.5.3 allows."""

    _pending_pong = b""  # to send once the buffer has space
    _abort_timer: asyncio.TimerHandle | None = None

    def handle_ping(self) -> None:
        pongs = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        elif pongs:
            self._pending_pong = pongs[-1]

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._pending_pong = self._pending_pong, b""
        if pong and not self.close_sent and not self.transport.is_closing():
            self.transport.write(pong)

    # -- a closing transport would otherwise wait forever until all is read

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            self._schedule_abort()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._schedule_abort()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:
            self._schedule_abort()

    def _schedule_abort(self) -> None:
        if self._abort_timer is None and not self.disconnected:
            self._abort_timer = self.loop.call_later(CLOSE_TIMEOUT, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
