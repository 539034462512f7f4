"""WebSockets, as the portal's live pages and the lines into tasks share them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

LOGGED_OUT = 4401
REFUSED = 4403
FAILED = 1011
TOO_MANY = 1013


class Messages:
    """What goes over an open socket. WebSocketDisconnect when the other side is gone."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def query(self) -> dict[str, str]:
        return dict(self._socket.query_params)

    async def send(self, message: dict[str, Any]) -> None:
        with _gone():
            await self._socket.send_text(json.dumps(message, separators=(",", ":")))

    async def send_bytes(self, data: bytes) -> None:
        with _gone():
            await self._socket.send_bytes(data)

    async def receive(self) -> str | bytes:
        with _gone():
            message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        found = message.get("text") if message.get("text") is not None else message.get("bytes")
        return found if found is not None else ""


@contextmanager
def _gone() -> Iterator[None]:
    """The framework says in this way that a socket is closed; what else raises it is a mistake of ours."""
    try:
        yield
    except RuntimeError as error:
        raise WebSocketDisconnect from error


async def until_one_ends(*work: Coroutine[Any, Any, None]) -> list[BaseException | None]:
    """All of it at once, until the first ends; then the rest is cancelled. What each ended with, if not well."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    return ended
