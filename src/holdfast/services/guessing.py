"""Back-off against guessing passwords: who failed often has to wait before the next try.

Counted per user and address together, per address (one machine trying many users) and, far more patiently, per user
(many machines trying one user), so that nobody can lock somebody else out for long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from .refusals import TooManyRequests

REMEMBER = 20_000  # keys; the least recently used go first
FORGET_AFTER = 3600.0  # seconds without a try


@dataclass(frozen=True, slots=True)
class Patience:
    free: int  # failures that cost nothing
    most: float  # longest wait, seconds


PAIR = Patience(free=5, most=900.0)
ADDRESS = Patience(free=100, most=60.0)  # many people may share one
USER = Patience(free=50, most=30.0)


@dataclass(slots=True)
class _Count:
    tries: int
    last: float
    open_at: float


class Guesses:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._counts: OrderedDict[tuple[str, ...], _Count] = OrderedDict()

    def begin(self, user: str, address: str) -> None:
        """Count a try before it is checked, so that many at once count as many. Refuses one that comes too early."""
        now = self._now()
        keys = _keys(user, address)
        wait = max(self._wait(key, now) for key in keys)
        if wait > 0:
            raise TooManyRequests(
                "Too many failed logins",
                retry_after=wait,
                hint=f"Wait {max(1, round(wait))} s and try again. An admin can set a new password.",
            )
        for key, patience in keys.items():
            self._count(key, patience, now)

    def succeeded(self, user: str, address: str) -> None:
        """The right password clears what was counted for this user here; the address keeps its other failures."""
        pair, by_address, by_user = _keys(user, address)
        self._counts.pop(pair, None)
        for key in (by_address, by_user):
            count = self._counts.get(key)
            if count is not None:
                count.tries = max(0, count.tries - 1)
                count.open_at = 0.0

    def _wait(self, key: tuple[str, ...], now: float) -> float:
        count = self._counts.get(key)
        if count is None:
            return 0.0
        if now - count.last > FORGET_AFTER:
            del self._counts[key]
            return 0.0
        return count.open_at - now

    def _count(self, key: tuple[str, ...], patience: Patience, now: float) -> None:
        count = self._counts.setdefault(key, _Count(0, now, 0.0))
        self._counts.move_to_end(key)
        count.tries += 1
        count.last = now
        over = count.tries - patience.free
        if over >= 0:
            count.open_at = now + min(patience.most, 2.0 ** min(over, 30))
        while len(self._counts) > REMEMBER:
            self._counts.popitem(last=False)


def _keys(user: str, address: str) -> dict[tuple[str, ...], Patience]:
    return {("pair", user, address): PAIR, ("address", address): ADDRESS, ("user", user): USER}
