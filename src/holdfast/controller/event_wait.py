"""Wait for an event with a timeout."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def wait_until_set(event: asyncio.Event, timeout: float) -> None:
    """Wait until the event is set, or for `timeout` seconds; then clear it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await event.wait()
    event.clear()
