"""How bytes of WebSockets go in and out. Whoever sends and reads nothing costs us only so much, and only for a while:
pings are answered before anybody is asked who they are."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LAST_WORDS = 60.0  # seconds to read what is left, after we have closed


class BoundedProtocol(WebSocketsSansIOProtocol):
    """While the other side does not read, only its newest ping is kept to be answered, as RFC 6455, 5.5.3 allows."""

    _pong = b""  # for when there is room
    _cut: asyncio.TimerHandle | None = None

    def handle_ping(self) -> None:
        pongs = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        elif pongs:
            self._pong = pongs[-1]

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if pong and not self.close_sent and not self.transport.is_closing():
            self.transport.write(pong)

    # -- a transport that is closed waits until all is read, for ever

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            self._cut_soon()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._cut_soon()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:
            self._cut_soon()

    def _cut_soon(self) -> None:
        if self._cut is None and not self.disconnected:
            self._cut = self.loop.call_later(LAST_WORDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._cut is not None:
            self._cut.cancel()
