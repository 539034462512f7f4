"""Background work that goes on for as long as the server does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

RESTART_MIN, RESTART_MAX = 1.0, 60.0  # seconds until work that failed begins again
STEADY_AFTER = 300.0  # seconds after which a failure counts as the first one again


async def supervise(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run it until it returns. When it fails, log that and begin it again after a while."""
    delay = RESTART_MIN
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await work()
            return
        except Exception as error:
            if asyncio.get_running_loop().time() - began > STEADY_AFTER:
                delay = RESTART_MIN
            said = {"event": "background", "work": name, "again_in": delay}
            log.error("work in the background failed; it begins again", extra=said, exc_info=error)
        await asyncio.sleep(delay)
        delay = min(2 * delay, RESTART_MAX)
