"""Why a job is as it is: why it waits, why it failed, what slows it down, what it used of what it asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.core.access import Actor
from holdfast.core.scheduling.blockers import Wait
from holdfast.core.states import JobState
from holdfast.core.verdicts import Diagnosis, Efficiency, Finding
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.jobs.records import JobDetail

from ..control import Control
from ..inside.debuggers import Debuggers
from ..inside.holds import with_hold
from ..job_lookup import find_job
from .blockers import LONG, Blockers
from .insights import Insights

SHORT = 2.0  # seconds that a page waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    job: JobDetail
    waiting: Wait | None = None
    failure: Diagnosis | None = None
    slow: tuple[Finding, ...] = ()
    efficiency: Efficiency | None = None
    debugger: str | None = None  # where one waits for somebody: train.py:42 in worker-3

    @property
    def verdict(self) -> str:
        """Which of these is to be read first."""
        if self.failure is not None:
            return "failed"
        if self.waiting is not None and self.job.summary.state is JobState.PENDING:
            return "waiting"
        if self.debugger is not None:
            return "debugger"
        return "slow" if self.slow else "fine"


class Reasons:
    def __init__(
        self, store: Store, control: Control, blockers: Blockers, insights: Insights, debuggers: Debuggers
    ) -> None:
        self._store = store
        self._control = control
        self._blockers = blockers
        self._insights = insights
        self._debuggers = debuggers

    async def of(self, actor: Actor, ref: str) -> Why:
        """NotFound when there is none that the actor may see."""
        found = await find_job(self._store, actor, ref)
        return await self.of_record(actor, await self._store.read(job_rows.get, found.id), LONG)

    async def of_record(self, actor: Actor, record: JobDetail, patience: float = SHORT) -> Why:
        """Of a job that whoever asks may see: that has been checked. `patience`: seconds for all that keeps it waiting
        to be worked out; after that it is told in short."""
        record = replace(record, summary=with_hold(record.summary, self._control))
        insight = await self._insights.of(record)
        return Why(
            job=record,
            waiting=await self._blockers.of(actor, record, patience),
            failure=insight.diagnosis,
            slow=insight.findings,
            efficiency=insight.efficiency,
            debugger=self._debuggers.waits_at(record.summary),
        )
