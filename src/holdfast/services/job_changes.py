"""Publishes changes of jobs to open pages.

Changes are in one ring buffer that every listener reads from its own position. So the cost of a change does not depend
on the listeners, and a slow one blocks nothing: one that misses changes reloads everything.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass
from itertools import islice

CHANGE_BUFFER_SIZE = 2000  # changes


@dataclass(frozen=True, slots=True)
class JobChange:
    job: str
    group: str
    user: str


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changes after a mark. `everything`: more than the buffer has."""

    mark: str  # where to continue
    jobs: tuple[JobChange, ...] = ()
    waiting: bool = False  # reasons of pending jobs may have changed
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.jobs) or self.waiting or self.everything


class JobChanges:
    """One per server. For use on the event loop only."""

    def __init__(self, remembered: int = CHANGE_BUFFER_SIZE) -> None:
        self._buffer: deque[JobChange | None] = deque(maxlen=remembered)  # None: reasons of pending jobs
        self._count = 0  # total number
        self._epoch = secrets.token_hex(4)  # invalidates marks from before a restart
        self._changed = asyncio.Event()

    @property
    def mark(self) -> str:
        """Current position. Get it before reading, so that no later change is missed."""
        return f"{self._epoch}.{self._count}"

    def publish_job_change(self, job: str, group: str, user: str) -> None:
        """Publish a change of a job. Call after it is saved."""
        self._append_change(JobChange(job, group, user))

    def publish_wait_reasons(self) -> None:
        """Publish that reasons of pending jobs may have changed. Consecutive calls are merged."""
        if not self._buffer or self._buffer[-1] is not None:
            self._append_change(None)

    def get_changes_since(self, mark: str) -> ChangeSet:
        """Return the changes after `mark`; everything if the mark is unknown."""
        epoch, _, position = mark.partition(".")
        known = epoch == self._epoch and position.isdecimal() and len(position) < 20
        missed = self._count - int(position) if known else -1
        if not 0 <= missed <= len(self._buffer):
            return ChangeSet(self.mark, everything=True)
        changes = list(islice(self._buffer, len(self._buffer) - missed, None))
        jobs = tuple(change for change in changes if change is not None)
        return ChangeSet(self.mark, jobs, waiting=len(jobs) < len(changes))

    async def wait_for_changes(self, mark: str) -> ChangeSet:
        while not (news := self.get_changes_since(mark)):
            await self._changed.wait()
        return news

    def _append_change(self, change: JobChange | None) -> None:
        self._buffer.append(change)
        self._count += 1
        self._changed.set()
        self._changed = asyncio.Event()
