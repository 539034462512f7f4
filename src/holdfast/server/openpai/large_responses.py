"""Large responses: built in a thread and sent in chunks, so that other requests are not blocked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

CHUNK_SIZE = 256 * 1024  # bytes
SEND_TIMEOUT = 300.0  # seconds; then the client is disconnected
MIN_THREADED_ITEMS = 500  # tasks, jobs or events; for fewer, a thread costs more time than it saves


async def respond_large_json(make: Callable[[], Any], size: int) -> Response:
    """Return the result of `make` as JSON; `size` is the number of items in it."""
    text = await asyncio.to_thread(_build_json, make) if size > MIN_THREADED_ITEMS else _build_json(make)
    return ChunkedResponse(text.encode(), media_type="application/json")


class ChunkedResponse(Response):
    """A response that is sent in chunks, each after the previous one was received, so that its end is known."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(SEND_TIMEOUT):
                await self._send_chunks(send)
        except TimeoutError:
            raise ClientDisconnect from None  # treated as disconnected
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_chunks(self, send: Send) -> None:
        for first in range(0, len(self.body), CHUNK_SIZE):
            piece = bytes(self.body[first : first + CHUNK_SIZE])
            await send({"type": "http.response.body", "body": piece, "more_body": True})


def _build_json(make: Callable[[], Any]) -> str:
    return encode_json(make())


def encode_json(value: Any) -> str:
    """Return JSON text. One call of the json module cannot be interrupted, so long lists are encoded item by item."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{encode_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list) and len(value) > MIN_THREADED_ITEMS:
        return "[" + ",".join(json.dumps(item, separators=(",", ":")) for item in value) + "]"
    return json.dumps(value, separators=(",", ":"))
