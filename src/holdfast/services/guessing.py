"""Back-off against guessing passwords: who failed often has to wait before the next try.

The same user from the same address is refused for a while. An address (one machine trying many users) and a user (many
machines trying one) are shared with people who did nothing wrong: their tries only take longer, and the right password
still opens. A try is refused there only when too many others are being delayed already.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .refusals import TooManyRequests

REMEMBER = 20_000  # keys; the least recently used go first
FORGET_AFTER = 3600.0  # seconds without a try
WAITING = 16  # tries delayed at one time for one address or one user
WAITING_IN_ALL = 512


@dataclass(frozen=True, slots=True)
class Patience:
    free: int  # failures that cost nothing
    first: float  # seconds the first try after them waits; doubled by each one more
    most: float  # longest wait, seconds


PAIR = Patience(free=5, first=1.0, most=900.0)  # refused until it is over
ADDRESS = Patience(free=100, first=0.1, most=2.0)  # delayed; many people may share one
USER = Patience(free=50, first=0.1, most=2.0)  # delayed


@dataclass(slots=True)
class _Count:
    tries: int
    last: float
    wait: float = 0.0  # seconds the next try waits, counted from `last`


class Guesses:
    def __init__(
        self, monotonic: Callable[[], float], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._now = monotonic
        self._sleep = sleep
        self._counts: OrderedDict[tuple[str, ...], _Count] = OrderedDict()
        self._waiting: Counter[tuple[str, ...]] = Counter()

    async def begin(self, user: str, address: str) -> None:
        """Count a try before it is checked, so that many at once count as many. Holds it up, or refuses it."""
        now = self._now()
        pair, *shared = keys = _keys(user, address)
        refused = self._wait(pair, now)
        if refused > 0:
            raise _too_many(refused)
        delay, slowest = max((self._delay(key, now), key) for key in shared)
        if delay > 0:
            self._need_place(slowest, delay)
        for key, patience in keys.items():
            self._count(key, patience, now)
        if delay > 0:
            await self._hold_up(slowest, delay)

    def succeeded(self, user: str, address: str) -> None:
        """The right password clears what was counted for this user here; the address keeps its other failures."""
        keys = _keys(user, address)
        pair, *shared = keys
        self._counts.pop(pair, None)
        for key in shared:
            count = self._counts.get(key)
            if count is not None:
                count.tries = max(0, count.tries - 1)
                count.wait = _wait_after(count.tries, keys[key])

    def _wait(self, key: tuple[str, ...], now: float) -> float:
        """Seconds until a try may be made."""
        count = self._known(key, now)
        return 0.0 if count is None else count.last + count.wait - now

    def _delay(self, key: tuple[str, ...], now: float) -> float:
        """Seconds a try made now is held up."""
        count = self._known(key, now)
        return 0.0 if count is None else count.wait

    def _known(self, key: tuple[str, ...], now: float) -> _Count | None:
        count = self._counts.get(key)
        if count is not None and now - count.last > FORGET_AFTER:
            del self._counts[key]
            return None
        return count

    def _need_place(self, key: tuple[str, ...], delay: float) -> None:
        if self._waiting[key] >= WAITING or self._waiting.total() >= WAITING_IN_ALL:
            raise _too_many(delay)

    async def _hold_up(self, key: tuple[str, ...], delay: float) -> None:
        self._waiting[key] += 1
        try:
            await self._sleep(delay)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    def _count(self, key: tuple[str, ...], patience: Patience, now: float) -> None:
        count = self._counts.setdefault(key, _Count(0, now))
        self._counts.move_to_end(key)
        count.tries += 1
        count.last = now
        count.wait = _wait_after(count.tries, patience)
        while len(self._counts) > REMEMBER:
            self._counts.popitem(last=False)


def _wait_after(tries: int, patience: Patience) -> float:
    over = tries - patience.free
    return 0.0 if over < 0 else min(patience.most, patience.first * 2.0 ** min(over, 30))


def _too_many(wait: float) -> TooManyRequests:
    return TooManyRequests(
        "Too many failed logins",
        retry_after=wait,
        hint=f"Wait {max(1, round(wait))} s and try again. An admin can set a new password.",
    )


def _keys(user: str, address: str) -> dict[tuple[str, ...], Patience]:
    return {("pair", user, address): PAIR, ("address", address): ADDRESS, ("user", user): USER}
