"""A socket of a page by hand: what the server sends is kept, and the page can leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from .page_client import Desk

TIMEOUT = 20.0  # seconds; a test that needs them has failed


class Wire:
    def __init__(self) -> None:
        self.accepted = False
        self.code: int | None = None  # it was closed with
        self.received: list[Any] = []  # what the server sent: objects, or bytes
        self._to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._news = asyncio.Condition()
        self._to_server.put_nowait({"type": "websocket.connect"})

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._news:
            if message["type"] == "websocket.accept":
                self.accepted = True
            elif message["type"] == "websocket.close":
                self.code = message.get("code", 1000)
            elif message.get("text") is not None:
                self.received.append(json.loads(message["text"]))
            else:
                self.received.append(message["bytes"])
            self._news.notify_all()

    def say(self, message: dict[str, Any]) -> None:
        self._to_server.put_nowait({"type": "websocket.receive", "text": json.dumps(message)})

    def leave(self) -> None:
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(TIMEOUT), self._news:
            await self._news.wait_for(holds)

    async def next(self) -> Any:
        """The oldest message that was not taken yet."""
        await self.until(lambda: self.received)
        return self.received.pop(0)


@asynccontextmanager
async def open_wire(
    desk: Desk, path: str, *, query: str = "", origin: str | None = "http://test"
) -> AsyncIterator[Wire]:
    """With the desk's cookies, accepted or closed."""
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in desk.client.cookies.jar)
    headers = {"host": "test", "cookie": cookies} | ({"origin": origin} if origin else {})
    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1234),
        "server": ("test", 80),
        "subprotocols": [],
    }
    wire = Wire()
    task = asyncio.create_task(desk.rig.app(scope, wire._to_server.get, wire._send))  # type: ignore[arg-type]
    try:
        await wire.until(lambda: wire.accepted or wire.code)
        yield wire
    finally:
        wire.leave()
        with suppress(TimeoutError):
            await asyncio.wait_for(task, TIMEOUT)
