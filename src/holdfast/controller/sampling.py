"""Looking at what running tasks use: 5 seconds apart in a task's first minute, then 10. One call of the engine for all
that are due, and nothing at all while nothing runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.attempt import Observation, Seen
from holdfast.engines.base import SupportsMetrics
from holdfast.store.metrics.series_files import SeriesFiles, Taken

log = logging.getLogger(__name__)

CLOSE = 5.0  # seconds between two looks in the first minute
APART = 2  # times as long after it
YOUNG = 60.0
NEWBORN = 0.2  # of the time between two looks; before that there is nothing to tell a rate of
TIMEOUT = 30.0  # seconds for the engine to answer


@dataclass(slots=True)
class Watched:
    """A task that runs, by a clock that does not jump."""

    began: float
    due: float


class Sampler:
    def __init__(
        self,
        engine: SupportsMetrics,
        files: SeriesFiles,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        looked: Callable[[float], None] = lambda seconds: None,
        close: float = CLOSE,
    ) -> None:
        """`looked` is told how many seconds each look at tasks took."""
        self._engine = engine
        self._files = files
        self._wall = wall
        self._monotonic = monotonic
        self._looked = looked
        self._close = close
        self._watched: dict[str, Watched] = {}
        self._stopped: dict[str, Watched] = {}  # just failed, and held: looked at once more
        self._fails = False
        self._woken = asyncio.Event()

    def hear(self, observation: Observation) -> None:
        """What the engine sees of a task."""
        attempt_id = observation.attempt_id
        if observation.seen is Seen.RUNNING:
            self._watch(attempt_id, observation.elapsed or 0.0)
        elif observation.seen is Seen.HELD and attempt_id in self._watched:
            self._stopped[attempt_id] = self._watched.pop(attempt_id)
            self._woken.set()
        elif observation.seen is not Seen.ABSENT:  # also one that was held while no server ran: it worked before that
            self._watched.pop(attempt_id, None)
            self._end(attempt_id, None if observation.seen is Seen.HELD else observation)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._until_due()):
                    await self._woken.wait()
            try:
                await self.look()
            except Exception as error:
                if not self._fails:  # told once, not every few seconds
                    log.warning("could not measure tasks", extra={"event": "figures", "error": repr(error)})
                self._fails = True
            else:
                self._fails = False

    async def look(self) -> None:
        """One round: all that are due."""
        now = self._monotonic()
        stopped, self._stopped = self._stopped, {}
        due = {id: task for id, task in self._watched.items() if task.due <= now}
        if not due and not stopped:
            return
        for task in due.values():
            task.due = self._next(now, now - task.began)
        try:
            await self._measure(due | stopped)
            self._looked(self._monotonic() - now)
        finally:
            for attempt_id in stopped:
                self._end(attempt_id, None)

    async def _measure(self, tasks: dict[str, Watched]) -> None:
        async with asyncio.timeout(TIMEOUT):
            found = await self._engine.measure(tasks.keys())
        at, now = self._wall(), self._monotonic()
        looks = [
            Taken(attempt_id=id, reading=reading, at=at, age=now - tasks[id].began) for id, reading in found.items()
        ]
        await self._files.ask(self._files.take, looks)

    def _watch(self, attempt_id: str, elapsed: float) -> None:
        if attempt_id in self._watched:
            return
        now = self._monotonic()
        newborn = elapsed < NEWBORN * self._close
        self._watched[attempt_id] = Watched(began=now - elapsed, due=self._next(now, 0.0) if newborn else now)
        self._woken.set()

    def _end(self, attempt_id: str, seen: Observation | None) -> None:
        used, elapsed = (seen.used, seen.elapsed) if seen else (None, None)
        self._files.soon(self._files.end, attempt_id, used, elapsed, self._wall()).add_done_callback(_tell)

    def _until_due(self) -> float | None:
        """Seconds; None: until something runs."""
        if self._stopped:
            return 0.0
        first = min((task.due for task in self._watched.values()), default=None)
        return None if first is None else max(0.0, first - self._monotonic())

    def _next(self, now: float, age: float) -> float:
        """On a common beat, so that tasks are looked at together."""
        close = self._close
        beats = now // close + 1
        if beats * close - now < NEWBORN * close:
            beats += 1
        return (beats if age < YOUNG - close / 2 else beats + APART - 1) * close


def _tell(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        log.error("could not end the figures of a task", extra={"event": "figures", "error": repr(error)})
