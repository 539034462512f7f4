"""Turns at answers that cost much: lists, and jobs of many tasks.

Few threads read the database. Only some of them are ever at such an answer, so that all else goes on meanwhile. One
asker has one turn at a time, and a large answer keeps it until the client has taken it all: what is not yet taken is
in memory.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from holdfast.services.refusals import TooManyRequests

AT_ONCE = 2  # being made
UNSENT = 8  # large ones in memory
WAITING = 20  # of one asker; more are refused


@dataclass(slots=True)
class _Asker:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    here: int = 0  # waiting, or at their turn


class Turns:
    def __init__(self) -> None:
        self.making = asyncio.Semaphore(AT_ONCE)
        self.unsent = asyncio.Semaphore(UNSENT)
        self.askers: dict[str, _Asker] = {}


class Turn:
    """Of one request; most never take it."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._asker: str | None = None
        self._held: list[asyncio.Lock | asyncio.Semaphore] = []
        self._making = False

    async def take(self, asker: str, *, large: bool) -> None:
        """Wait for it. Taking it again changes nothing."""
        if self._asker is not None:
            return
        mine = self._turns.askers.setdefault(asker, _Asker())
        if mine.here > WAITING:
            raise _too_many()
        mine.here += 1
        self._asker = asker
        await self._acquire(mine.lock)
        if large:
            await self._acquire(self._turns.unsent)
        await self._turns.making.acquire()
        self._making = True

    async def _acquire(self, one: asyncio.Lock | asyncio.Semaphore) -> None:
        await one.acquire()
        self._held.append(one)

    def made(self) -> None:
        """The answer is there, and is yet to be sent."""
        if self._making:
            self._making = False
            self._turns.making.release()

    def end(self) -> None:
        self.made()
        while self._held:
            self._held.pop().release()
        if self._asker is not None:
            mine = self._turns.askers[self._asker]
            mine.here -= 1
            if not mine.here:
                del self._turns.askers[self._asker]
            self._asker = None


def _too_many() -> TooManyRequests:
    return TooManyRequests(
        "Too many of your requests wait for an answer already", retry_after=5, hint="Wait for those, or ask for less."
    )
