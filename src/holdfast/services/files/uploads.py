"""Limits on uploads: how many at a time, since each holds memory and room on disk, and how long one may be silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ..fair_limiter import FairLimiter
from ..refusals import TooManyRequests, Unavailable

MAX_PER_USER = 8
MAX_TOTAL = 64
SILENCE = 60.0  # seconds
RETRY_INTERVAL = 5.0  # seconds


def limit_uploads() -> FairLimiter:
    """A limiter of uploads by user. It refuses at once: a request that waits holds a connection."""
    return FairLimiter(MAX_TOTAL, per_key=MAX_PER_USER, max_waiting=0, refuse=_refuse)


def _refuse(by_user: bool) -> UserError:
    if by_user:
        return TooManyRequests(
            msg("You already have {max_per_user} uploads in progress", max_per_user=MAX_PER_USER),
            retry_after=RETRY_INTERVAL,
            hint=msg("Send the others once these have finished."),
        )
    return Unavailable(
        msg("The server already has {max_total} uploads in progress", max_total=MAX_TOTAL),
        hint=msg("Try again in a moment."),
    )


async def not_silent(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks, as long as there is another one soon."""
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise UserError(
                msg("Nothing more of the file came for {silence} seconds, so it was given up", silence=f"{SILENCE:g}"),
                hint=msg("Send it again."),
            ) from None
        if chunk is None:
            return
        yield chunk
