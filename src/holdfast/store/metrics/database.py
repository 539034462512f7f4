"""Metrics of tasks: a SQLite database of their own beside that of jobs, written once for each round of samples.

Samples have wall-clock times; their lengths come from a monotonic clock. The first ring stores samples as they
arrive, the longer ones the means of whole intervals. An unfinished interval is not saved; it is computed again
from the samples in the first ring.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from holdfast.core.attempt_id import parse_job_id
from holdfast.core.metrics.samples import (
    RING_BUFFER_SPECS,
    CurrentMetrics,
    Reading,
    RingBufferSpec,
    Sample,
    TaskSummary,
)
from holdfast.core.metrics.sampling import (
    add_to_summary,
    average_interval,
    build_origin_reading,
    build_sample,
    complete_last_reading,
    compute_interval_number,
    iter_interval_overlaps,
)

from ..error_translation import to_store_error
from ..errors import StoreError
from .file import is_damage_error, move_damaged_file, open_metrics_file
from .rows import (
    NO_POINTS,
    SAVE_SAMPLE,
    SAVE_TASK,
    SampleRow,
    TaskMetricsState,
    dump_state,
    load_state,
    read_ring,
    sample_to_row,
    sort_samples,
)

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

FILE_NAME = "metrics.db"
WARNING_INTERVAL = 60.0  # seconds between two warnings that metrics cannot be saved
REMOVE_BATCH_SIZE = 20  # tasks removed in one transaction
SHRINK_BATCH_SIZE = 2000  # freed in one transaction
_MAX_INTERVAL = max(ring.seconds for ring in RING_BUFFER_SPECS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A reading of one task."""

    attempt_id: str
    reading: Reading
    at: float  # seconds since 1970
    age: float  # seconds since the task started, monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    attempt_id: str
    used: Reading | None  # in total, if known
    seconds: float | None  # of run time
    at: float  # seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    """The metrics of a task: a list of points per ring, oldest first, and the summary."""

    rings: dict[str, list[Sample]]
    summary: TaskSummary
    reading: Reading  # the last one


class EndedTask(NamedTuple):
    updated: float  # seconds since 1970
    id: int
    attempt_id: str


@dataclass(slots=True)
class _TrackedTask:
    """The database state of a task."""

    id: int
    attempt_id: str
    state: TaskMetricsState | None = None  # None: not measured yet
    recent: deque[Sample] = field(default_factory=deque)  # as far back as the longest interval

    def drop_old_samples(self) -> None:
        while self.recent and abs(self.recent[-1].at - self.recent[0].at) > 2 * _MAX_INTERVAL:
            self.recent.popleft()


@dataclass(slots=True)
class _Change:
    """Changes of a task that the next transaction saves."""

    task: _TrackedTask
    at: float  # seconds since 1970
    samples: list[SampleRow] = field(default_factory=list)


_Changes = dict[int, _Change]  # by the task's id


class MetricsDatabase:
    """Metrics of tasks. One thread does all the work in order, so that a read sees all earlier writes.
    Methods without `async` block and run in that thread, except `schedule_end`."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME
        self.newest: dict[str, CurrentMetrics] = {}  # of running tasks
        self._connection: sqlite3.Connection | None = None
        self._next_id = 1
        self._running: dict[str, _TrackedTask] = {}
        self._ends: deque[TaskEnd] = deque()
        self._warned_at: float | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call one of the methods below in the worker thread."""
        return await asyncio.wrap_future(self._thread.submit(work, *args, **kwargs))

    def close(self) -> None:
        """Finish queued work and close the file. Idempotent."""
        with suppress(RuntimeError):  # closed before
            self._thread.submit(self._close_connection)
        self._thread.shutdown()

    # -- writing

    def record_measurements(self, measurements: Sequence[Measurement]) -> None:
        """Save a round of measurements. If the database cannot be written, they are lost, with a warning."""
        changes: _Changes = {}
        try:
            for each in measurements:
                self._add_measurement(each, changes)
            self._save_changes(changes)
        except StoreError as error:
            self._log_database_failure(error)

    def schedule_end(self, end: TaskEnd) -> None:
        """Let the worker thread save the end of a task, together with others. Idempotent."""
        self._ends.append(end)
        if len(self._ends) == 1:
            self._thread.submit(self._save_ends).add_done_callback(_log_failure)

    def record_ends(self, *ends: TaskEnd) -> None:
        changes: _Changes = {}
        try:
            for each in ends:
                self._add_end(each, changes)
            self._save_changes(changes)
        except StoreError as error:
            self._log_database_failure(error)
        finally:
            for each in ends:
                self._running.pop(each.attempt_id, None)
                self.newest.pop(each.attempt_id, None)

    def _save_ends(self) -> None:
        ends = []
        while self._ends:
            ends.append(self._ends.popleft())
        self.record_ends(*ends)

    def _add_measurement(self, new: Measurement, changes: _Changes) -> None:
        task = self._find_task(new.attempt_id)
        state = task.state if task else None
        if state is not None and state.summary.ended:
            return
        before = state.reading if state else build_origin_reading(new.reading, new.age)
        if new.reading.at <= before.at:
            before = new.reading  # its clock restarted: the time between is unknown
        self._add_reading(task or self._create_task(new.attempt_id), before, new.reading, new.at, changes)

    def _add_end(self, end: TaskEnd, changes: _Changes) -> None:
        task = self._find_task(end.attempt_id)
        state = task.state if task else None
        if state is not None and state.summary.ended:
            return
        if end.used is not None:
            more = max(0.0, (end.seconds or 0.0) - (state.summary.seconds if state else 0.0))
            last = complete_last_reading(state.reading if state else None, end.used, more)
            before = state.reading if state else build_origin_reading(last, more)
            self._add_reading(task or self._create_task(end.attempt_id), before, last, end.at, changes, ended=True)
        elif task is not None and state is not None:
            summary = replace(state.summary, ended=True)
            _add_points(
                task,
                _iter_unfinished_averages(task.recent, RING_BUFFER_SPECS[1:]),
                state.reading,
                summary,
                end.at,
                changes,
            )

    def _add_reading(
        self, task: _TrackedTask, before: Reading, after: Reading, at: float, changes: _Changes, *, ended: bool = False
    ) -> None:
        taken = build_sample(before, after, at)
        summary = add_to_summary(task.state.summary if task.state else TaskSummary(), before, after, taken)
        points = _finish_intervals(task, taken) if taken else []
        if taken is not None:
            self.newest[task.attempt_id] = CurrentMetrics(sample=taken, reading=after)
        if ended:
            points += _iter_unfinished_averages(task.recent, RING_BUFFER_SPECS[1:])
            summary = replace(summary, ended=True)
        self._running[task.attempt_id] = task
        _add_points(task, points, after, summary, at, changes)

    def _save_changes(self, changes: _Changes) -> None:
        tasks = [
            (task.id, task.attempt_id, change.at, task.state.summary.ended, dump_state(task.state))
            for change in changes.values()
            if (task := change.task).state is not None
        ]
        samples = [row for change in changes.values() for row in change.samples]

        def write_changes(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                connection.executemany(SAVE_TASK, tasks)
                connection.executemany(SAVE_SAMPLE, samples)

        if tasks:
            self._use_connection(write_changes)

    def _log_database_failure(self, error: StoreError) -> None:
        now = time.monotonic()
        if self._warned_at is None or now - self._warned_at > WARNING_INTERVAL:
            self._warned_at = now
            log.warning("could not use the metrics database", extra={"event": "metrics", "error": str(error)})

    # -- reading

    def read_series(self, attempt_id: str, *names: str) -> MetricSeries | None:
        """Return these rings of a task, or all. None: it has no metrics, or they cannot be read."""
        wanted = [ring for ring in RING_BUFFER_SPECS if not names or ring.name in names]
        try:
            task = self._find_task(attempt_id)
            if task is None or task.state is None:
                return None
            id, state = task.id, task.state
            rings = self._use_connection(lambda connection: {ring: read_ring(connection, id, ring) for ring in wanted})
        except StoreError as error:
            self._log_database_failure(error)
            return None
        if not state.summary.ended:
            for ring, point in _iter_unfinished_averages(
                task.recent, [ring for ring in wanted if ring is not RING_BUFFER_SPECS[0]]
            ):
                rings[ring] = _replace_interval(rings[ring], point, ring)
        found = {ring.name: points for ring, points in rings.items()}
        return MetricSeries(rings=found, summary=state.summary, reading=state.reading)

    def read_summary(self, attempt_id: str) -> TaskSummary | None:
        try:
            task = self._find_task(attempt_id)
        except StoreError as error:
            self._log_database_failure(error)
            return None
        return task.state.summary if task and task.state else None

    def _find_task(self, attempt_id: str) -> _TrackedTask | None:
        """Find a task in memory, else in the database."""
        known = self._running.get(attempt_id)
        return known or self._use_connection(lambda connection: _load_task(connection, attempt_id))

    def _create_task(self, attempt_id: str) -> _TrackedTask:
        task = _TrackedTask(self._next_id, attempt_id)
        self._next_id += 1
        return task

    # -- removing

    def list_job_ids(self, after: str, limit: int) -> list[str]:
        """Return the next jobs with metrics, sorted by id; from the first one if `after` is empty."""

        def read_job_ids(connection: sqlite3.Connection) -> list[str]:
            jobs: list[str] = []
            place = after and f"{after}/"
            while len(jobs) < limit:
                query = "SELECT attempt FROM task WHERE attempt >= ? ORDER BY attempt LIMIT 1"
                row = connection.execute(query, (place,)).fetchone()
                if row is None:
                    break
                jobs.append(parse_job_id(row[0]))
                place = f"{jobs[-1]}/"
            return jobs

        return self._use_connection(read_job_ids)

    def list_ended_tasks(self, after: EndedTask | None, before: float, limit: int) -> list[EndedTask]:
        """Return the next tasks that ended before a time (seconds since 1970), oldest first."""
        query = """
            SELECT updated, id, attempt FROM task WHERE ended AND updated < ? AND (updated, id) > (?, ?)
            ORDER BY updated, id LIMIT ?
        """
        last = (after.updated, after.id) if after else (-math.inf, 0)
        rows = self._use_connection(lambda connection: connection.execute(query, (before, *last, limit)).fetchall())
        return [EndedTask(*row) for row in rows]

    async def remove_jobs(self, job_ids: Collection[str], updated_before: float = math.inf) -> None:
        """Remove the metrics of these jobs that were not written since a time (seconds since 1970)."""
        await self.remove_tasks(await self.run_in_thread(self._list_task_ids, job_ids, updated_before))

    async def remove_tasks(self, ids: Sequence[int]) -> None:
        """Remove metrics in batches, so that other work is not blocked."""
        for start in range(0, len(ids), REMOVE_BATCH_SIZE):
            await self.run_in_thread(self._remove_task_rows, ids[start : start + REMOVE_BATCH_SIZE])

    async def shrink_file(self, max_free: float = 0.0) -> None:
        """Shrink the file in steps until at most that share of it is unused."""
        while await self.run_in_thread(self._vacuum_pages, max_free):
            pass

    def _list_task_ids(self, job_ids: Collection[str], updated_before: float) -> list[int]:
        query = "SELECT id FROM task WHERE attempt >= ? AND attempt < ? AND updated < ?"
        ranges = [(f"{job}.", f"{job}/", updated_before) for job in job_ids]  # in ASCII, "/" is next to "."
        return self._use_connection(
            lambda connection: [id for each in ranges for (id,) in connection.execute(query, each)]
        )

    def _remove_task_rows(self, ids: Sequence[int]) -> None:
        rows = [(id,) for id in ids]

        def delete_rows(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                connection.executemany("DELETE FROM sample WHERE task = ?", rows)
                connection.executemany("DELETE FROM task WHERE id = ?", rows)

        self._use_connection(delete_rows)

    def _vacuum_pages(self, max_free: float) -> bool:
        """Free some pages; return whether there is more to do."""

        def vacuum_pages(connection: sqlite3.Connection) -> bool:
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            (total,) = connection.execute("PRAGMA page_count").fetchone()
            surplus: int = min(SHRINK_BATCH_SIZE, free - int(max_free * total))
            if surplus > 0:
                connection.executescript(f"PRAGMA incremental_vacuum({surplus})")  # `execute` ends after one page
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return surplus == SHRINK_BATCH_SIZE

        return self._use_connection(vacuum_pages)

    # -- the connection

    def _use_connection(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`; if the file is damaged, retry on a new file. StoreError if that is not possible."""
        try:
            try:
                return work(self._get_connection())
            except Exception as error:
                if not is_damage_error(error):
                    raise
                self._replace_damaged_file(error)
            return work(self._get_connection())
        except (sqlite3.Error, OSError) as error:
            raise to_store_error(error) from error

    def _get_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = open_metrics_file(self.path)
            (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM task").fetchone()
            self._next_id = max(self._next_id, last + 1)
            self._connection = connection
        return self._connection

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _replace_damaged_file(self, error: Exception) -> None:
        self._close_connection()
        moved = move_damaged_file(self.path)
        details = {"event": "metrics", "error": repr(error), "moved_to": str(moved)}
        log.error("could not read the metrics database; started a new one", extra=details)


def _load_task(connection: sqlite3.Connection, attempt_id: str) -> _TrackedTask | None:
    row = connection.execute("SELECT id, state FROM task WHERE attempt = ?", (attempt_id,)).fetchone()
    if row is None:
        return None
    task = _TrackedTask(row[0], attempt_id, state := load_state(row[1]))
    if not state.summary.ended:
        task.recent.extend(read_ring(connection, task.id, RING_BUFFER_SPECS[0]))
        task.drop_old_samples()
    return task


def _finish_intervals(task: _TrackedTask, taken: Sample) -> list[tuple[RingBufferSpec, Sample]]:
    """Return the points to save: the sample, and the intervals that it ends."""
    last = task.recent[-1] if task.recent else taken
    task.recent.append(taken)
    points = [(RING_BUFFER_SPECS[0], taken)]
    for ring in RING_BUFFER_SPECS[1:]:
        now, before = compute_interval_number(taken, ring.seconds), compute_interval_number(last, ring.seconds)
        if now == before and taken.at - taken.seconds >= now * ring.seconds:
            continue  # it is still the same interval
        passed = {before, *(slot for slot, _ in iter_interval_overlaps(taken, ring.seconds))} - {now}
        means = (average_interval(task.recent, slot, ring.seconds) for slot in sorted(passed))
        points += [(ring, each) for each in means if each is not None]
    task.drop_old_samples()
    return points


def _iter_unfinished_averages(
    samples: Sequence[Sample] | deque[Sample], rings: Iterable[RingBufferSpec]
) -> Iterator[tuple[RingBufferSpec, Sample]]:
    """Return the unfinished interval of each of these rings."""
    if samples:
        for ring in rings:
            found = average_interval(samples, compute_interval_number(samples[-1], ring.seconds), ring.seconds)
            if found is not None:
                yield ring, found


def _add_points(
    task: _TrackedTask,
    points: Iterable[tuple[RingBufferSpec, Sample]],
    reading: Reading,
    summary: TaskSummary,
    at: float,
    changes: _Changes,
) -> None:
    change = changes.setdefault(task.id, _Change(task, at))
    change.at = at
    counts = list(task.state.counts if task.state else NO_POINTS)
    for ring, point in points:
        number = RING_BUFFER_SPECS.index(ring)
        change.samples.append(sample_to_row(task.id, ring, counts[number], point))
        counts[number] += 1
    task.state = TaskMetricsState(counts=tuple(counts), reading=reading, summary=summary)


def _replace_interval(points: list[Sample], newest: Sample, ring: RingBufferSpec) -> list[Sample]:
    slot = compute_interval_number(newest, ring.seconds)
    return sort_samples([*(each for each in points if compute_interval_number(each, ring.seconds) != slot), newest])


def _log_failure(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        log.error("could not save the end of a task's metrics", extra={"event": "metrics", "error": repr(error)})
