"""The clock of schedules: sleeps until the next one is due, and has them run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from holdfast.core.errors import HoldfastError
from holdfast.services.schedules.due_actions import CLOCK_SLIP
from holdfast.services.schedules.due_runs import DueRuns

log = logging.getLogger(__name__)

MAX_SLEEP = 60.0  # seconds; the clock on the wall may be set meanwhile
TRY_AGAIN = 5.0  # seconds after the store failed


class ScheduleRunner:
    def __init__(self, due: DueRuns, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._due = due
        self._clock = clock
        self._seen = clock()  # what the clock showed last

    async def run(self) -> None:
        """Until cancelled."""
        await self._until_done(self._due.settle)
        while True:
            await self._due.stirred(await self._pause())

    async def _pause(self) -> float:
        """Do what is due, and say how long nothing will be."""
        try:
            await self._set_right()
            next_at = await self._due.run_due()
        except Exception as error:
            _tell(error)
            return TRY_AGAIN
        if next_at is None:
            return MAX_SLEEP
        return min(max((next_at - self._clock()).total_seconds(), 0.0), MAX_SLEEP)

    async def _set_right(self) -> None:
        """A clock that was days ahead for a while must not silence schedules for as long once it is right again."""
        now = self._clock()
        if self._seen - now > CLOCK_SLIP:
            await self._due.settle()
        self._seen = now

    async def _until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                return
            except Exception as error:
                _tell(error)
                await asyncio.sleep(TRY_AGAIN)


def _tell(error: Exception) -> None:
    unknown = None if isinstance(error, HoldfastError) else error
    log.error("could not run schedules", extra={"event": "schedules", "error": str(error)}, exc_info=unknown)
