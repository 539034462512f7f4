"""Streamed responses. They end when the client disconnects, or loses access."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import UserError

log = logging.getLogger(__name__)

LAST_CHUNK_TIMEOUT = 5.0  # seconds for a client to read why its stream ends

LastChunkRenderer = Callable[[UserError], bytes]


class AccessWatcher(Protocol):
    async def wait_for_revocation(self) -> Any:
        """Wait until access ends; raise the UserError with the reason."""
        ...


class StreamedResponse(Response):
    """Sends one chunk at a time and buffers at most one. A client that disconnects ends the source too. Other requests
    get a turn after each chunk.

    When access ends, `last_words` are the last chunk of a complete response. Without them the connection is cut: the
    client sees an incomplete response, and gets the reason when it retries.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        guard: AccessWatcher,
        media_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        last_words: LastChunkRenderer | None = None,
    ) -> None:
        self._chunks = chunks
        self._access_watcher = guard
        self._render_last_chunk = last_words
        self._started = False
        self.status_code = status
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_chunks(scope, send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        watching = asyncio.create_task(self._access_watcher.wait_for_revocation())
        try:
            await asyncio.wait({sending, leaving, watching}, return_when=asyncio.FIRST_COMPLETED)
            ended = not sending.done() and watching.done()
        finally:
            for task in (sending, leaving, watching):
                task.cancel()
            sent, _, refusal = await _gather_exceptions(sending, leaving, watching)
        if isinstance(sent, Exception):
            raise sent
        if ended and isinstance(refusal, Exception):
            await self._send_refusal(refusal, send)

    async def _send_chunks(self, scope: Scope, send: Send) -> None:
        async with aclosing(self._chunks) as chunks:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            self._started = True
            if not scope.get("holdfast.head"):
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_refusal(self, refusal: Exception, send: Send) -> None:
        if not self._started or not isinstance(refusal, UserError):
            raise refusal  # handled like any other error, or a bug
        log.info("a stream was cancelled", extra={"event": "access", "reason": refusal.message})
        if self._render_last_chunk is None:
            return  # without the final chunk, so that the connection is cut
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_CHUNK_TIMEOUT):
                await send({"type": "http.response.body", "body": self._render_last_chunk(refusal), "more_body": False})


async def _gather_exceptions(*tasks: asyncio.Task[Any]) -> list[BaseException | None]:
    found: list[BaseException | None] = await asyncio.gather(*tasks, return_exceptions=True)
    return found


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
