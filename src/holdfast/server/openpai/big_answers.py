"""Answers that may be large: made in a thread and piece by piece, so that other requests go on meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE = 256 * 1024  # bytes
SEND_WITHIN = 300.0  # seconds; then the client is cut off
MANY = 500  # tasks, jobs or events; fewer take less time than handing them to a thread costs


async def answer_big(make: Callable[[], Any], size: int) -> Response:
    """What `make` returns, as JSON; `size` is how many things it tells of."""
    text = await asyncio.to_thread(_make, make) if size > MANY else _make(make)
    return InPieces(text.encode(), media_type="application/json")


class InPieces(Response):
    """Sent piece by piece, each once the one before is taken, so that it is known when all of it was."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(SEND_WITHIN):
                await self._send_pieces(send)
        except TimeoutError:
            raise ClientDisconnect from None  # as good as gone
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_pieces(self, send: Send) -> None:
        for first in range(0, len(self.body), PIECE):
            piece = bytes(self.body[first : first + PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": True})


def _make(make: Callable[[], Any]) -> str:
    return write_json(make())


def write_json(value: Any) -> str:
    """JSON text. One call of the json module cannot be interrupted, so long lists are written item by item."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{write_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list) and len(value) > MANY:
        return "[" + ",".join(json.dumps(item, separators=(",", ":")) for item in value) + "]"
    return json.dumps(value, separators=(",", ":"))
