"""Looks at Slurm's queue: one command for all tasks, however many callers wait for it, and fewer after errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from .commands import SlurmCommands, SlurmUnavailable
from .jobs import QueuedJob

JobsByName = Mapping[str, Sequence[QueuedJob]]

_FIRST_RETRY = 0.5  # seconds until a failed look is repeated; doubled each time


class QueueWatch:
    def __init__(
        self, commands: SlurmCommands, min_interval: float, max_retry: float, on_health: Callable[[], None]
    ) -> None:
        self._commands = commands
        self._min_interval = min_interval
        self._max_retry = max_retry
        self._on_health = on_health
        self._current: asyncio.Task[JobsByName] | None = None
        self._next: asyncio.Task[JobsByName] | None = None
        self._ended_at = float("-inf")
        self._retry_at = float("-inf")
        self._delay = _FIRST_RETRY
        self.error = ""  # of the last look; empty: it succeeded
        self.failed_since: datetime | None = None
        self.last_jobs: JobsByName = {}  # of the last successful look
        self._submitted: set[str] = set()  # names of jobs that were submitted since that look began
        self.looked_at = float("-inf")  # begin of the last successful look, in the event loop's time

    async def look(self) -> JobsByName:
        """Return the jobs, from a look that begins after this call. SlurmUnavailable if it fails, and at once for a
        while after it failed."""
        if self.error and asyncio.get_running_loop().time() < self._retry_at:
            raise SlurmUnavailable(self.error)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._look_after(self._current))
        return await asyncio.shield(self._next)

    def record_submission(self, name: str) -> None:
        """Record that a job is submitted, whether Slurm accepts it or not."""
        self._submitted.add(name)

    def is_unknown(self, name: str) -> bool:
        """Return whether neither Slurm, as of the last look, nor this process knows a job of that name."""
        has_looked = self.looked_at > float("-inf") and not self.error
        return has_looked and name not in self.last_jobs and name not in self._submitted

    async def close(self) -> None:
        """Wait for nothing: end the looks in progress."""
        tasks = [task for task in (self._current, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_after(self, current: asyncio.Task[JobsByName] | None) -> JobsByName:
        loop = asyncio.get_running_loop()
        if current is not None and not current.done():
            await asyncio.wait([current])
        await asyncio.sleep(max(0.0, self._ended_at + self._min_interval - loop.time()))
        self._current, self._next = self._next, None
        began = loop.time()
        before, self._submitted = self._submitted, set()
        try:
            jobs = await self._commands.list_jobs()
        except SlurmUnavailable as error:
            self._submitted |= before
            self._record_failure(str(error))
            raise
        finally:
            self._ended_at = loop.time()
        self._record_success(began)
        self.last_jobs = jobs
        return jobs

    def _record_failure(self, error: str) -> None:
        self._retry_at = asyncio.get_running_loop().time() + self._delay
        self._delay = min(self._max_retry, self._delay * 2)
        known, self.error = bool(self.error), error
        if not known:
            self.failed_since = datetime.now(UTC)
            self._on_health()

    def _record_success(self, began: float) -> None:
        self.looked_at, self._delay = began, _FIRST_RETRY
        known, self.error, self.failed_since = bool(self.error), "", None
        if known:
            self._on_health()
