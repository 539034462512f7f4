"""Why a job is slow, and how much of its request it used: collects its metrics and judges them.

It covers the job's last attempt; see `diagnosis.efficiency` for how several tries of one task are combined.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from holdfast.core.job import Job
from holdfast.core.metrics.samples import TaskSummary
from holdfast.core.records import TaskRecord
from holdfast.core.verdicts import Efficiency, Finding
from holdfast.diagnosis.efficiency import MIN_SECONDS_FOR_MEANS, summarize_efficiency
from holdfast.diagnosis.slowness import MinimumTimes, find_slowness
from holdfast.diagnosis.task_run import TaskRun
from holdfast.engines.base import Engine, LogStream
from holdfast.store.database import Store
from holdfast.store.jobs import history
from holdfast.store.jobs.records import JobDetail

from ..metrics.service import SupportsSummaries

log = logging.getLogger(__name__)

MAX_LOGS = 50  # of one job, checked for their first output
LOGS_TIMEOUT = 10.0  # seconds for all of them

EfficiencyResult = tuple[tuple[Finding, ...], Efficiency | None]


class EfficiencyReports:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        metrics: SupportsSummaries,
        *,
        clock: Callable[[], datetime],
        least: MinimumTimes | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._metrics = metrics
        self._clock = clock
        self._minimum_times = least or MinimumTimes()
        self.min_seconds = min(MIN_SECONDS_FOR_MEANS, self._minimum_times.ended)

    async def analyze_job(self, record: JobDetail) -> EfficiencyResult:
        """Return findings and the efficiency report. The caller has checked permissions."""
        summary = record.summary
        tries = await self._store.read(history.list_job_tries, summary.id, summary.attempt)
        ran = [each for each in tries if each.task.started_at is not None]
        if not ran:
            return (), None
        used = await self._metrics.read_summaries([each.attempt_id for each in ran])
        runs = [_build_run(record.job, each, used.get(each.attempt_id), self._clock()) for each in ran]
        newest = await self._add_first_output(
            {each.task.task: (each, run) for each, run in zip(ran, runs, strict=True)}
        )
        return await asyncio.to_thread(self._analyze_runs, newest, runs)

    def _analyze_runs(self, newest: Sequence[TaskRun], runs: Sequence[TaskRun]) -> EfficiencyResult:
        return find_slowness(newest, self._minimum_times), summarize_efficiency(runs, self._minimum_times)

    async def _add_first_output(self, newest: Mapping[str, tuple[TaskRecord, TaskRun]]) -> list[TaskRun]:
        """Add the time of the first output; None if the log cannot be read."""
        wanted = [task for task, (_, run) in newest.items() if run.seconds >= self._minimum_times.silent][:MAX_LOGS]
        found = dict.fromkeys(newest, None) | await self._load_first_output_delays([newest[task][0] for task in wanted])
        return [replace(run, first_output=found[task]) for task, (_, run) in newest.items()]

    async def _load_first_output_delays(self, records: Sequence[TaskRecord]) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        try:
            async with asyncio.timeout(LOGS_TIMEOUT):
                for record in records:
                    found[record.task.task] = await self._load_first_output_delay(record)
        except (OSError, TimeoutError) as error:
            log.warning("could not find a job's first output", extra={"event": "efficiency", "error": str(error)})
        return found

    async def _load_first_output_delay(self, record: TaskRecord) -> float | None:
        source = self._engine.open_log(record.attempt_id, LogStream.MERGED) if record.logs_removed_at is None else None
        started = record.task.started_at
        if source is None or started is None or await source.find_first_offset() > 0:
            return None
        pieces = await source.list_write_times(0, 1, 1)
        return max((pieces[0].at - started).total_seconds(), 0.0) if pieces else None


def _build_run(job: Job, record: TaskRecord, used: TaskSummary | None, now: datetime) -> TaskRun:
    task = record.task
    assert task.started_at is not None
    until = task.worked_until
    return TaskRun(
        task=task.task,
        role=task.role,
        asked=job.get_role(task.role).resources,
        seconds=max(((until or now) - task.started_at).total_seconds(), 0.0),
        ended=until is not None,
        used=used or TaskSummary(),
    )
