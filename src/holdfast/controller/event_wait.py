"""Resting between two rounds of work, until somebody says that there is more."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def rest(stirred: asyncio.Event, longest: float) -> None:
    """Until it is set, so many seconds at most. It is unset afterwards."""
    with suppress(TimeoutError):
        async with asyncio.timeout(longest):
            await stirred.wait()
    stirred.clear()
