"""Explanations of jobs: why a job is pending, failed or slow, and how much of its request it used."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.core.access import Actor
from holdfast.core.scheduling.blockers import WaitExplanation
from holdfast.core.states import JobState
from holdfast.core.verdicts import Diagnosis, Efficiency, Finding
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.jobs.records import JobDetail

from ..control import Control
from ..inside.debuggers import Debuggers
from ..inside.holds import add_held_until
from ..job_lookup import find_job
from .blockers import EXPLAIN_TIMEOUT, Blockers
from .insights import Insights

PAGE_TIMEOUT = 2.0  # seconds; for pages


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    job: JobDetail
    waiting: WaitExplanation | None = None
    failure: Diagnosis | None = None
    slow: tuple[Finding, ...] = ()
    efficiency: Efficiency | None = None
    debugger: str | None = None  # where one is waiting: train.py:42 in worker-3

    @property
    def verdict(self) -> str:
        """The most important of these."""
        if self.failure is not None:
            return "failed"
        if self.waiting is not None and self.job.summary.state in (JobState.PENDING, JobState.PREPARING):
            return "waiting"
        if self.debugger is not None:
            return "debugger"
        return "slow" if self.slow else "fine"


class JobExplanations:
    def __init__(
        self, store: Store, control: Control, blockers: Blockers, insights: Insights, debuggers: Debuggers
    ) -> None:
        self._store = store
        self._control = control
        self._blockers = blockers
        self._insights = insights
        self._debuggers = debuggers

    async def explain_job(self, actor: Actor, ref: str) -> JobExplanation:
        """Explain a job. NotFound if the actor cannot read it."""
        found = await find_job(self._store, actor, ref)
        return await self.explain_record(
            actor, await self._store.read(job_rows.load_job_detail, found.id), EXPLAIN_TIMEOUT
        )

    async def explain_record(self, actor: Actor, record: JobDetail, timeout: float = PAGE_TIMEOUT) -> JobExplanation:
        """The caller has checked permissions. `timeout`: seconds for the full list of blockers; then a short one."""
        record = replace(record, summary=add_held_until(record.summary, self._control))
        insight = await self._insights.load_insight(record)
        return JobExplanation(
            job=record,
            waiting=await self._blockers.explain_wait(actor, record, timeout),
            failure=insight.diagnosis,
            slow=insight.findings,
            efficiency=insight.efficiency,
            debugger=self._debuggers.describe_free_debugger(record.summary),
        )
