"""Background work that runs as long as the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MIN_RESTART_INTERVAL, MAX_RESTART_INTERVAL = 1.0, 60.0  # seconds until failed work restarts
BACKOFF_RESET_TIME = 300.0  # seconds after which a failure counts as the first one again


async def run_supervised(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run it until it returns. When it fails, log the error and restart it later."""
    delay = MIN_RESTART_INTERVAL
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await work()
            return
        except Exception as error:
            if asyncio.get_running_loop().time() - began > BACKOFF_RESET_TIME:
                delay = MIN_RESTART_INTERVAL
            details = {"event": "background", "work": name, "again_in": delay}
            log.error("background work failed; restarting", extra=details, exc_info=error)
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_RESTART_INTERVAL)
