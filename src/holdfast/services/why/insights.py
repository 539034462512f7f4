"""What is concluded of jobs: worked out once when a job ends, and kept; of one that goes on, worked out when asked."""

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

MAX_CONCURRENT = 2  # jobs that are looked at in the background
LOOKED_AT = 6  # at a time, with those that somebody asks for: their logs are in memory meanwhile
MAX_WAITING = 100_000  # jobs that ended; what is left out is worked out when somebody asks
FRESH = 5.0  # seconds for which a job that goes on is not looked at again
CACHE_SIZE = 256


class GivesDiagnosis(Protocol):
    async def of(self, record: JobDetail) -> Diagnosis | None: ...


class GivesEfficiency(Protocol):
    min_seconds: float  # jobs that ran for less have no efficiency report

    async def of(self, record: JobDetail) -> tuple[tuple[Finding, ...], Efficiency | None]: ...


class Insights:
    def __init__(
        self,
        store: Store,
        diagnoses: GivesDiagnosis,
        efficiencies: GivesEfficiency | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._diagnoses = diagnoses
        self._efficiencies = efficiencies
        self._monotonic = monotonic
        self._ended: OrderedDict[str, None] = OrderedDict()  # ids of jobs to look at, oldest first
        self._more = asyncio.Event()
        self._known: OrderedDict[tuple[str, int], tuple[float, Insight]] = OrderedDict()  # of jobs that go on
        self._under_way: dict[str, asyncio.Task[Insight]] = {}
        self._turns = asyncio.Semaphore(LOOKED_AT)

    async def of(self, record: JobDetail) -> Insight:
        """Whoever asks may see the job: that has been checked."""
        if not record.summary.state.final:
            return await self._for_now(record)
        try:
            kept = await self._store.read(insight_rows.find_insight, record.summary.seq)
        except ValueError as error:  # damaged, or written by another version
            said = {"event": "insight", "job": record.summary.id, "error": str(error)}
            log.warning("what was concluded of a job cannot be read", extra=said)
            return await self._for_now(record)
        return await self._masked(record, kept) if kept is not None else await self._once(record)

    async def kept_diagnosis(self, record: JobDetail) -> Diagnosis | None:
        """Why it failed, where that has been worked out and kept: it is not worked out for this. As for `of`, whoever
        asks may see the job."""
        if record.summary.state is not JobState.FAILED:
            return None
        seq = record.summary.seq
        kept = (await self._store.read(insight_rows.find_diagnoses, [seq])).get(seq)
        return None if kept is None else mask_diagnosis(await load_masker(self._store, record.summary.id), kept)

    async def _masked(self, record: JobDetail, kept: Insight) -> Insight:
        """Earlier versions kept diagnoses with secrets in them."""
        if kept.diagnosis is None:
            return kept
        masker = await load_masker(self._store, record.summary.id)
        return replace(kept, diagnosis=mask_diagnosis(masker, kept.diagnosis))

    def job_ended(self, job: JobSnapshot) -> None:
        if not self._is_short_success(job):
            self.look_later(job.id)

    def _is_short_success(self, job: JobSnapshot) -> bool:
        """There is nothing to keep of it: so it is not read from the disk to find that out."""
        if job.state is not JobState.SUCCEEDED or job.attempt_started_at is None or job.finished_at is None:
            return False
        seconds = (job.finished_at - job.attempt_started_at).total_seconds()
        return 0 <= seconds < (self._efficiencies.min_seconds if self._efficiencies else 0)

    def look_later(self, job_id: str) -> None:
        if len(self._ended) < MAX_WAITING:
            self._ended[job_id] = None
            self._more.set()

    async def run(self) -> None:
        """Looks at jobs that ended, a few at a time. Until cancelled."""
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(MAX_CONCURRENT):
                    workers.create_task(self._work())
        finally:
            for task in list(self._under_way.values()):
                task.cancel()

    async def _work(self) -> None:
        while True:
            while not self._ended:
                self._more.clear()
                await self._more.wait()
            job_id, _ = self._ended.popitem(last=False)
            began = self._monotonic()
            try:
                await self._once(await self._store.read(job_rows.get, job_id))
            except NotFound:
                continue
            except Exception as error:  # it is worked out again when somebody asks
                _tell(job_id, error)
            await asyncio.sleep(min(self._monotonic() - began, 1.0))  # leave others half of the time

    async def _once(self, record: JobDetail) -> Insight:
        """Several who ask for the same at the same time get the same."""
        job_id = record.summary.id
        task = self._under_way.get(job_id)
        if task is None:
            task = self._under_way[job_id] = asyncio.create_task(self._work_out_and_keep(record))
            task.add_done_callback(lambda _: self._under_way.pop(job_id, None))
        return await asyncio.shield(task)

    async def _work_out_and_keep(self, record: JobDetail) -> Insight:
        insight, whole = await self._work_out(record)
        if whole and _tells(insight):
            await self._keep(record, insight)
        return insight

    async def _keep(self, record: JobDetail, insight: Insight) -> None:
        try:
            await self._store.write(insight_rows.save_insight, record.summary.seq, record.summary.attempt, insight)
        except Exception as error:  # whoever asked has it all the same
            _tell(record.summary.id, error)

    async def _for_now(self, record: JobDetail) -> Insight:
        """Worked out, and not kept."""
        key, now = (record.summary.id, record.version), self._monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < FRESH:
            return known[1]
        insight, _ = await self._work_out(record)
        self._known[key] = now, insight
        self._known.move_to_end(key)
        while len(self._known) > CACHE_SIZE:
            self._known.popitem(last=False)
        return insight

    async def _work_out(self, record: JobDetail) -> tuple[Insight, bool]:
        """And whether it is all there: a fault of ours leaves out what it hit, and nobody's page fails for it."""
        async with self._turns:
            return await self._look(record)

    async def _look(self, record: JobDetail) -> tuple[Insight, bool]:
        diagnosis: Diagnosis | None = None
        used: tuple[tuple[Finding, ...], Efficiency | None] = ((), None)
        whole = True
        try:
            diagnosis = await self._diagnoses.of(record)
        except Exception as error:
            whole = _tell(record.summary.id, error)
        try:
            used = await self._efficiencies.of(record) if self._efficiencies else used
        except Exception as error:
            whole = _tell(record.summary.id, error)
        return Insight(diagnosis=diagnosis, findings=tuple(used[0]), efficiency=used[1]), whole


def _tells(insight: Insight) -> bool:
    """There is something to keep: of most jobs that were short and went well there is not."""
    used = insight.efficiency.whole if insight.efficiency else None
    return bool(insight.diagnosis or insight.findings or (used and used.cpu_used is not None))


def _tell(job_id: str, error: Exception) -> bool:
    """False, for what is not whole then."""
    said = {"event": "insight", "job": job_id, "error": f"{type(error).__name__}: {error}"}
    log.warning("could not judge a job", extra=said, exc_info=error)
    return False
