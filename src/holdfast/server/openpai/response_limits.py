"""Limits on expensive responses: lists, and jobs with many tasks.

Few threads read the database. Only some of them work on such responses, so that other requests are not blocked. A user
or guest has one such response at a time, until the client has received it: the unsent rest is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from holdfast.services.errors import TooManyRequests
from holdfast.services.fair_limiter import FairLimiter

MAX_CONCURRENT_BUILDS = 2  # built at the same time
MAX_UNSENT_LARGE = 8  # large ones in memory
MAX_WAITING_REQUESTS = 20  # requests of one user or guest


class ResponseLimits:
    def __init__(self) -> None:
        self.unfinished = FairLimiter(max_waiting=MAX_WAITING_REQUESTS, refuse=_build_refusal)
        self.unsent = FairLimiter(MAX_UNSENT_LARGE)
        self.building = FairLimiter(MAX_CONCURRENT_BUILDS)


class ResponseSlots:
    """The slots of one request. Most requests acquire none."""

    def __init__(self, limits: ResponseLimits) -> None:
        self._limits = limits
        self._slots = ExitStack()
        self._acquired = False
        self.release_build_slot: Callable[[], None] = lambda: None  # when the response is built, before it is sent

    async def acquire_slots(self, user: str, *, large: bool) -> None:
        """Wait until the response can be built. A second call changes nothing."""
        if self._acquired:
            return
        self._acquired = True
        await self._acquire_slot(self._limits.unfinished, user)
        if large:
            await self._acquire_slot(self._limits.unsent, user)
        self.release_build_slot = await self._acquire_slot(self._limits.building, user)

    async def _acquire_slot(self, limiter: FairLimiter, user: str) -> Callable[[], None]:
        return self._slots.callback(await limiter.acquire(user))

    def release_slots(self) -> None:
        self._slots.close()


def _build_refusal(_by_key: bool) -> TooManyRequests:
    return TooManyRequests("You already have too many pending requests", retry_after=5, hint="Wait until they finish.")
