"""Diagnoses and efficiency of jobs: computed and stored when a job ends; for active jobs, computed on request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import NotFound
from holdfast.core.states import JobState
from holdfast.core.verdicts import Diagnosis, Efficiency, Finding, Insight
from holdfast.store.database import Store
from holdfast.store.jobs import insights as insight_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.jobs.records import JobDetail

from .secret_masks import load_masker, mask_diagnosis

log = logging.getLogger(__name__)

WORKER_COUNT = 2  # jobs analyzed in the background
MAX_CONCURRENT_ANALYSES = 6  # jobs analyzed at a time, including requests; their logs are in memory
MAX_QUEUED_JOBS = 100_000  # ended jobs; others are analyzed on request
CACHE_LIFETIME = 5.0  # seconds for which the result of an active job is cached
CACHE_SIZE = 256


class SupportsDiagnosis(Protocol):
    async def diagnose_job(self, record: JobDetail) -> Diagnosis | None: ...


class SupportsEfficiency(Protocol):
    min_seconds: float  # jobs that ran for less have no efficiency report

    async def analyze_job(self, record: JobDetail) -> tuple[tuple[Finding, ...], Efficiency | None]: ...


class Insights:
    def __init__(
        self,
        store: Store,
        diagnoses: SupportsDiagnosis,
        efficiencies: SupportsEfficiency | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._diagnoses = diagnoses
        self._efficiencies = efficiencies
        self._monotonic = monotonic
        self._queued_job_ids: OrderedDict[str, None] = OrderedDict()  # ids of jobs to analyze, oldest first
        self._queue_event = asyncio.Event()
        self._cache: OrderedDict[tuple[str, int], tuple[float, Insight]] = OrderedDict()  # of active jobs
        self._running: dict[str, asyncio.Task[Insight]] = {}
        self._analysis_slots = asyncio.Semaphore(MAX_CONCURRENT_ANALYSES)

    async def load_insight(self, record: JobDetail) -> Insight:
        """Return the job's insight. The caller has checked permissions."""
        if not record.summary.state.final:
            return await self._get_or_compute_insight(record)
        try:
            stored = await self._store.read(insight_rows.find_insight, record.summary.seq)
        except ValueError as error:  # damaged, or written by another version
            extra = {"event": "insight", "job": record.summary.id, "error": str(error)}
            log.warning("could not read the stored insight of a job", extra=extra)
            return await self._get_or_compute_insight(record)
        return (
            await self._mask_insight(record, stored) if stored is not None else await self._compute_insight_once(record)
        )

    async def find_stored_diagnosis(self, record: JobDetail) -> Diagnosis | None:
        """Return the stored diagnosis, without computing one. The caller has checked permissions."""
        if record.summary.state is not JobState.FAILED:
            return None
        seq = record.summary.seq
        stored = (await self._store.read(insight_rows.load_diagnoses, [seq])).get(seq)
        return None if stored is None else mask_diagnosis(await load_masker(self._store, record.summary.id), stored)

    async def _mask_insight(self, record: JobDetail, stored: Insight) -> Insight:
        """Mask secrets again: earlier versions stored diagnoses that contain them."""
        if stored.diagnosis is None:
            return stored
        masker = await load_masker(self._store, record.summary.id)
        return replace(stored, diagnosis=mask_diagnosis(masker, stored.diagnosis))

    def enqueue_ended_job(self, job: JobSnapshot) -> None:
        if not self._is_short_success(job):
            self.enqueue_job(job.id)

    def _is_short_success(self, job: JobSnapshot) -> bool:
        """Return whether the job has no insight, without reading it from disk."""
        if job.state is not JobState.SUCCEEDED or job.attempt_started_at is None or job.finished_at is None:
            return False
        seconds = (job.finished_at - job.attempt_started_at).total_seconds()
        return 0 <= seconds < (self._efficiencies.min_seconds if self._efficiencies else 0)

    def enqueue_job(self, job_id: str) -> None:
        if len(self._queued_job_ids) < MAX_QUEUED_JOBS:
            self._queued_job_ids[job_id] = None
            self._queue_event.set()

    async def run(self) -> None:
        """Analyze ended jobs, a few at a time, until cancelled."""
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(WORKER_COUNT):
                    workers.create_task(self._run_worker())
        finally:
            for task in list(self._running.values()):
                task.cancel()

    async def _run_worker(self) -> None:
        while True:
            while not self._queued_job_ids:
                self._queue_event.clear()
                await self._queue_event.wait()
            job_id, _ = self._queued_job_ids.popitem(last=False)
            began = self._monotonic()
            try:
                await self._compute_insight_once(await self._store.read(job_rows.load_job_detail, job_id))
            except NotFound:
                continue
            except Exception as error:  # it is analyzed again on request
                _log_failure(job_id, error)
            await asyncio.sleep(min(self._monotonic() - began, 1.0))  # leave half of the time to requests

    async def _compute_insight_once(self, record: JobDetail) -> Insight:
        """Share one computation between concurrent requests for the same job."""
        job_id = record.summary.id
        task = self._running.get(job_id)
        if task is None:
            task = self._running[job_id] = asyncio.create_task(self._compute_and_save_insight(record))
            task.add_done_callback(lambda _: self._running.pop(job_id, None))
        return await asyncio.shield(task)

    async def _compute_and_save_insight(self, record: JobDetail) -> Insight:
        insight, complete = await self._compute_insight(record)
        if complete and _is_worth_saving(insight):
            await self._save_insight(record, insight)
        return insight

    async def _save_insight(self, record: JobDetail, insight: Insight) -> None:
        try:
            await self._store.write(insight_rows.save_insight, record.summary.seq, record.summary.attempt, insight)
        except Exception as error:  # the request still gets the result
            _log_failure(record.summary.id, error)

    async def _get_or_compute_insight(self, record: JobDetail) -> Insight:
        """Compute the insight of an active job; cached for a short time, not stored."""
        key, now = (record.summary.id, record.version), self._monotonic()
        known = self._cache.get(key)
        if known is not None and now - known[0] < CACHE_LIFETIME:
            return known[1]
        insight, _ = await self._compute_insight(record)
        self._cache[key] = now, insight
        self._cache.move_to_end(key)
        while len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)
        return insight

    async def _compute_insight(self, record: JobDetail) -> tuple[Insight, bool]:
        """Return the insight, and whether it is complete: an internal error leaves out only the part it affects."""
        async with self._analysis_slots:
            return await self._analyze_job(record)

    async def _analyze_job(self, record: JobDetail) -> tuple[Insight, bool]:
        diagnosis: Diagnosis | None = None
        used: tuple[tuple[Finding, ...], Efficiency | None] = ((), None)
        complete = True
        try:
            diagnosis = await self._diagnoses.diagnose_job(record)
        except Exception as error:
            complete = _log_failure(record.summary.id, error)
        try:
            used = await self._efficiencies.analyze_job(record) if self._efficiencies else used
        except Exception as error:
            complete = _log_failure(record.summary.id, error)
        return Insight(diagnosis=diagnosis, findings=tuple(used[0]), efficiency=used[1]), complete


def _is_worth_saving(insight: Insight) -> bool:
    """Return whether there is anything to store: most short, successful jobs have nothing."""
    used = insight.efficiency.whole if insight.efficiency else None
    return bool(insight.diagnosis or insight.findings or (used and used.cpu_used is not None))


def _log_failure(job_id: str, error: Exception) -> bool:
    """Log an error. Return False: the insight is not complete."""
    extra = {"event": "insight", "job": job_id, "error": f"{type(error).__name__}: {error}"}
    log.warning("could not analyze a job", extra=extra, exc_info=error)
    return False
