"""Answers that are sent as they come, and end when the client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Stream(Response):
    """Sends each chunk and waits until it is taken: at most one is held. A client that leaves ends the source too.
    Sending waits for nothing while there is room on the way, so everybody else gets their turn after each chunk."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._chunks = chunks
        self.status_code = status
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_all(scope, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            with suppress(asyncio.CancelledError):
                await leaving
            with suppress(asyncio.CancelledError):
                await sending

    async def _send_all(self, scope: Scope, send: Send) -> None:
        async with aclosing(self._chunks) as chunks:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if not scope.get("holdfast.head"):
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
