"""Samples the usage of running tasks: every 5 seconds in a task's first minute, then every 10. One engine call measures
all due tasks; without running tasks there are no calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.attempt import Observation, ObservedState
from holdfast.engines.base import SupportsMetrics
from holdfast.store.metrics.database import Measurement, MetricsDatabase, TaskEnd

log = logging.getLogger(__name__)

INITIAL_SAMPLE_INTERVAL = 5.0  # seconds between two samples in the first minute
LATER_FACTOR = 2  # factor of the interval after it
INITIAL_SAMPLE_PERIOD = 60.0  # seconds
MIN_AGE_SHARE = 0.2  # share of the interval; before that a rate is meaningless
MEASURE_TIMEOUT = 30.0  # seconds for the engine to respond


@dataclass(slots=True)
class WatchedTask:
    """A running task, in monotonic time."""

    began: float
    due: float


class Sampler:
    def __init__(
        self,
        engine: SupportsMetrics,
        database: MetricsDatabase,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        looked: Callable[[float], None] = lambda seconds: None,
        close: float = INITIAL_SAMPLE_INTERVAL,
    ) -> None:
        """`looked` receives the seconds that each measurement took."""
        self._engine = engine
        self._database = database
        self._wall = wall
        self._monotonic = monotonic
        self._on_measured = looked
        self._initial_interval = close
        self._watched: dict[str, WatchedTask] = {}
        self._stopped: dict[str, WatchedTask] = {}  # just failed and on hold: sampled once more
        self._is_failing = False
        self._wake_event = asyncio.Event()

    def handle_observation(self, observation: Observation) -> None:
        """Start or stop sampling a task."""
        attempt_id = observation.attempt_id
        if observation.seen is ObservedState.RUNNING:
            self._watch_task(attempt_id, observation.elapsed or 0.0)
        elif observation.seen is ObservedState.HELD and attempt_id in self._watched:
            self._stopped[attempt_id] = self._watched.pop(attempt_id)
            self._wake_event.set()
        elif (
            observation.seen.final or observation.seen is ObservedState.HELD
        ):  # also one that was held while the server was down
            self._watched.pop(attempt_id, None)
            self._record_task_end(attempt_id, None if observation.seen is ObservedState.HELD else observation)

    async def run(self) -> None:
        while True:
            self._wake_event.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._compute_wait()):
                    await self._wake_event.wait()
            try:
                await self.sample_due_tasks()
            except Exception as error:
                if not self._is_failing:  # log once, not every few seconds
                    log.warning("could not measure tasks", extra={"event": "metrics", "error": repr(error)})
                self._is_failing = True
            else:
                self._is_failing = False

    async def sample_due_tasks(self) -> None:
        now = self._monotonic()
        stopped, self._stopped = self._stopped, {}
        due = {id: task for id, task in self._watched.items() if task.due <= now}
        if not due and not stopped:
            return
        for task in due.values():
            task.due = self._compute_next_due(now, now - task.began)
        try:
            await self._measure_tasks(due | stopped)
            self._on_measured(self._monotonic() - now)
        finally:
            for attempt_id in stopped:
                self._record_task_end(attempt_id, None)

    async def _measure_tasks(self, tasks: dict[str, WatchedTask]) -> None:
        async with asyncio.timeout(MEASURE_TIMEOUT):
            found = await self._engine.measure_tasks(tasks.keys())
        at, now = self._wall(), self._monotonic()
        measurements = [
            Measurement(attempt_id=id, reading=reading, at=at, age=now - tasks[id].began)
            for id, reading in found.items()
        ]
        await self._database.run_in_thread(self._database.record_measurements, measurements)

    def _watch_task(self, attempt_id: str, elapsed: float) -> None:
        if attempt_id in self._watched:
            return
        now = self._monotonic()
        newborn = elapsed < MIN_AGE_SHARE * self._initial_interval
        self._watched[attempt_id] = WatchedTask(
            began=now - elapsed, due=self._compute_next_due(now, 0.0) if newborn else now
        )
        self._wake_event.set()

    def _record_task_end(self, attempt_id: str, seen: Observation | None) -> None:
        used, elapsed = (seen.used, seen.elapsed) if seen else (None, None)
        self._database.schedule_end(TaskEnd(attempt_id=attempt_id, used=used, seconds=elapsed, at=self._wall()))

    def _compute_wait(self) -> float | None:
        """Return seconds; None: until a task runs."""
        if self._stopped:
            return 0.0
        first = min((task.due for task in self._watched.values()), default=None)
        return None if first is None else max(0.0, first - self._monotonic())

    def _compute_next_due(self, now: float, age: float) -> float:
        """Align to a common interval, so that tasks are sampled together."""
        close = self._initial_interval
        beats = now // close + 1
        if beats * close - now < MIN_AGE_SHARE * close:
            beats += 1
        return (beats if age < INITIAL_SAMPLE_PERIOD - close / 2 else beats + LATER_FACTOR - 1) * close
