"""Waits until the next schedule is due, and runs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from holdfast.core.errors import HoldfastError
from holdfast.services.schedules.due_actions import MAX_CLOCK_SLIP
from holdfast.services.schedules.due_runs import DueRuns

log = logging.getLogger(__name__)

MAX_SLEEP = 60.0  # seconds; the wall clock may be changed
RETRY_INTERVAL = 5.0  # seconds after the store failed


class ScheduleRunner:
    def __init__(self, due: DueRuns, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._due = due
        self._clock = clock
        self._last_clock_reading = clock()

    async def run(self) -> None:
        await self._retry_until_done(self._due.recover_schedules)
        while True:
            await self._due.wait_for_wake(await self._run_due_schedules())

    async def _run_due_schedules(self) -> float:
        """Run due schedules and return the pause in seconds."""
        try:
            await self._handle_clock_jump()
            next_at = await self._due.run_due_schedules()
        except Exception as error:
            _log_error(error)
            return RETRY_INTERVAL
        if next_at is None:
            return MAX_SLEEP
        return min(max((next_at - self._clock()).total_seconds(), 0.0), MAX_SLEEP)

    async def _handle_clock_jump(self) -> None:
        """Reset after a clock that was ahead, so that schedules are not delayed."""
        now = self._clock()
        if self._last_clock_reading - now > MAX_CLOCK_SLIP:
            await self._due.recover_schedules()
        self._last_clock_reading = now

    async def _retry_until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                return
            except Exception as error:
                _log_error(error)
                await asyncio.sleep(RETRY_INTERVAL)


def _log_error(error: Exception) -> None:
    unknown = None if isinstance(error, HoldfastError) else error
    log.error("could not run schedules", extra={"event": "schedules", "error": str(error)}, exc_info=unknown)
