"""Which jobs have changed: told as it happens, heard by pages that are open.

What was told lies in one ring that all listeners read, each from where it stopped. So a change costs the same whoever
listens, and one that is slow holds nothing up: what has left the ring before it came reads as "look at everything".
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass
from itertools import islice

CACHE_SIZE = 2000  # changes


@dataclass(frozen=True, slots=True)
class Change:
    job: str
    group: str
    user: str


@dataclass(frozen=True, slots=True)
class News:
    """What came after a mark. `everything`: more than is remembered."""

    mark: str  # where to go on
    jobs: tuple[Change, ...] = ()
    waiting: bool = False  # why jobs wait may be another now, though they wait as before
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.jobs) or self.waiting or self.everything


class Changes:
    """One per server. All of it on the event loop."""

    def __init__(self, remembered: int = CACHE_SIZE) -> None:
        self._ring: deque[Change | None] = deque(maxlen=remembered)  # None: why jobs wait
        self._told = 0  # how many, ever
        self._epoch = secrets.token_hex(4)  # marks of a server before this one mean nothing here
        self._news = asyncio.Event()

    @property
    def mark(self) -> str:
        """Now. Taken before something is read, it makes sure that no change after that is missed."""
        return f"{self._epoch}.{self._told}"

    def tell(self, job: str, group: str, user: str) -> None:
        """After the change is saved: whoever hears of it looks."""
        self._add(Change(job, group, user))

    def tell_waiting(self) -> None:
        """Machines or quotas are used otherwise than before. Once is enough until something else is told."""
        if not self._ring or self._ring[-1] is not None:
            self._add(None)

    def since(self, mark: str) -> News:
        """All that was told after `mark`; a mark that we did not give stands for everything."""
        epoch, _, count = mark.partition(".")
        known = epoch == self._epoch and count.isdecimal() and len(count) < 20
        missed = self._told - int(count) if known else -1
        if not 0 <= missed <= len(self._ring):
            return News(self.mark, everything=True)
        heard = list(islice(self._ring, len(self._ring) - missed, None))
        jobs = tuple(change for change in heard if change is not None)
        return News(self.mark, jobs, waiting=len(jobs) < len(heard))

    async def after(self, mark: str) -> News:
        """The same, as soon as there is anything."""
        while not (news := self.since(mark)):
            await self._news.wait()
        return news

    def _add(self, change: Change | None) -> None:
        self._ring.append(change)
        self._told += 1
        self._news.set()
        self._news = asyncio.Event()
