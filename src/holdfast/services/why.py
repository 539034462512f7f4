"""Why a job is as it is: why it waits, why it failed, what slows it down, what it used of what it asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.core.access import Actor
from holdfast.core.blockers import Wait
from holdfast.core.states import JobState
from holdfast.core.verdicts import Diagnosis, Efficiency, Finding
from holdfast.store import jobs as job_rows
from holdfast.store.database import Store
from holdfast.store.jobs import JobDetail

from .blockers import Blockers
from .control import Control
from .finding import find_job
from .holds import with_hold
from .insights import Insights


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    job: JobDetail
    waiting: Wait | None = None
    failure: Diagnosis | None = None
    slow: tuple[Finding, ...] = ()
    efficiency: Efficiency | None = None

    @property
    def verdict(self) -> str:
        """Which of these is to be read first."""
        if self.failure is not None:
            return "failed"
        if self.waiting is not None and self.job.summary.state is JobState.PENDING:
            return "waiting"
        return "slow" if self.slow else "fine"


class Reasons:
    def __init__(self, store: Store, control: Control, blockers: Blockers, insights: Insights) -> None:
        self._store = store
        self._control = control
        self._blockers = blockers
        self._insights = insights

    async def of(self, actor: Actor, ref: str) -> Why:
        """NotFound when there is none that the actor may see."""
        found = await find_job(self._store, actor, ref)
        record = await self._store.read(job_rows.get, found.id)
        record = replace(record, summary=with_hold(record.summary, self._control))
        insight = await self._insights.of(record)
        return Why(
            job=record,
            waiting=await self._blockers.of(actor, record),
            failure=insight.diagnosis,
            slow=insight.findings,
            efficiency=insight.efficiency,
        )
