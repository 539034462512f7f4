"""Limits on expensive answers: lists, and jobs of many tasks.

Few threads read the database. Only some of them are ever at such an answer, so that all else goes on meanwhile. One
user or guest has one such answer at a time, until the client has taken it all: what is not yet taken is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from holdfast.services.fair_limiter import FairLimiter
from holdfast.services.refusals import TooManyRequests

MAX_MADE = 2  # at a time
MAX_UNSENT = 8  # large ones in memory
MAX_WAITING = 20  # requests of one user or guest


class AnswerLimits:
    def __init__(self) -> None:
        self.unfinished = FairLimiter(max_waiting=MAX_WAITING, refuse=_refuse)
        self.unsent = FairLimiter(MAX_UNSENT)
        self.made = FairLimiter(MAX_MADE)


class AnswerSlots:
    """The slots of one request. Most requests acquire none."""

    def __init__(self, limits: AnswerLimits) -> None:
        self._limits = limits
        self._held = ExitStack()
        self._acquired = False
        self.release_made: Callable[[], None] = lambda: None  # once the answer is made, before it is sent

    async def acquire(self, user: str, *, large: bool) -> None:
        """Wait until the answer may be made. Acquiring again changes nothing."""
        if self._acquired:
            return
        self._acquired = True
        await self._acquire(self._limits.unfinished, user)
        if large:
            await self._acquire(self._limits.unsent, user)
        self.release_made = await self._acquire(self._limits.made, user)

    async def _acquire(self, limiter: FairLimiter, user: str) -> Callable[[], None]:
        return self._held.callback(await limiter.acquire(user))

    def release(self) -> None:
        self._held.close()


def _refuse(_by_key: bool) -> TooManyRequests:
    return TooManyRequests(
        "Too many of your requests wait for an answer already", retry_after=5, hint="Wait for those, or ask for less."
    )
