"""Limits on uploads: number at a time, since each uses memory and disk space, and a timeout between chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ..errors import TooManyRequests, Unavailable
from ..fair_limiter import FairLimiter

MAX_UPLOADS_PER_USER = 8
MAX_UPLOADS = 64
CHUNK_TIMEOUT = 60.0  # seconds
RETRY_INTERVAL = 5.0  # seconds


def build_upload_limiter() -> FairLimiter:
    """Return a limiter of uploads per user. It does not queue: a waiting request would keep a connection open."""
    return FairLimiter(MAX_UPLOADS, per_key=MAX_UPLOADS_PER_USER, max_waiting=0, refuse=_build_limit_error)


def _build_limit_error(by_user: bool) -> UserError:
    if by_user:
        return TooManyRequests(
            msg("You already have {max_per_user} uploads in progress", max_per_user=MAX_UPLOADS_PER_USER),
            retry_after=RETRY_INTERVAL,
            hint=msg("Start another upload when one of these has finished."),
        )
    return Unavailable(
        msg("The server already has {max_total} uploads in progress", max_total=MAX_UPLOADS),
        hint=msg("Try again in a moment."),
    )


async def enforce_chunk_timeout(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks; raise UserError if the next one times out."""
    while True:
        try:
            async with asyncio.timeout(CHUNK_TIMEOUT):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise UserError(
                msg("The upload timed out: no data arrived for {timeout} seconds", timeout=f"{CHUNK_TIMEOUT:g}"),
                hint=msg("Upload the file again."),
            ) from None
        if chunk is None:
            return
        yield chunk
