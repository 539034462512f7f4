"""WebSockets, shared by the portal's live pages and the sessions in tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

LOGGED_OUT_CODE = 4401
REFUSED_CODE = 4403
FAILED_CODE = 1011
TOO_MANY_CODE = 1013


class WebSocketConnection:
    """Messages of an open WebSocket. Raises WebSocketDisconnect when the other side has disconnected."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def query(self) -> dict[str, str]:
        return dict(self._socket.query_params)

    async def send(self, message: dict[str, Any]) -> None:
        with _translate_disconnect():
            await self._socket.send_text(json.dumps(message, separators=(",", ":")))

    async def send_bytes(self, data: bytes) -> None:
        with _translate_disconnect():
            await self._socket.send_bytes(data)

    async def receive(self) -> str | bytes:
        with _translate_disconnect():
            message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        found = message.get("text") if message.get("text") is not None else message.get("bytes")
        return found if found is not None else ""


@contextmanager
def _translate_disconnect() -> Iterator[None]:
    """Translate Starlette's error for a closed socket; any other cause of it is a bug."""
    try:
        yield
    except RuntimeError as error:
        raise WebSocketDisconnect from error


async def run_until_first_ends(*work: Coroutine[Any, Any, None]) -> list[BaseException | None]:
    """Run all concurrently until the first ends, then cancel the rest. Return the error of each, if any."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    return ended
