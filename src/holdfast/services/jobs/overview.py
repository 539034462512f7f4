"""What somebody wants to know first: how their own jobs do, and what went wrong lately."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.access import Actor
from holdfast.core.records import JobFilter, JobSummary
from holdfast.core.states import JobState
from holdfast.core.verdicts import Diagnosis
from holdfast.store.database import Store
from holdfast.store.jobs import insights as insight_rows
from holdfast.store.jobs import own_jobs

from ..job_lookup import readable_groups
from ..why.secret_masks import load_masker, mask_diagnosis
from .service import Jobs

RECENT = timedelta(days=7)
MAX_COUNTED = 1000  # of each state; beyond it a number says no more
FEW = 5  # jobs of each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnJobs:
    """Final ones as far as they were submitted since `since`; those that are not final, all."""

    since: datetime
    counts: Mapping[JobState, int]  # none above MAX_COUNTED
    held: tuple[JobSummary, ...]
    running: tuple[JobSummary, ...]
    waiting: tuple[JobSummary, ...]
    failed: tuple[JobSummary, ...]
    recent: tuple[JobSummary, ...]  # others, of any time
    any: bool  # there ever was one
    diagnoses: Mapping[str, Diagnosis]  # job id -> why it failed, as far as that is known by now


class Overview:
    def __init__(self, store: Store, jobs: Jobs, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock

    async def own_jobs(self, actor: Actor) -> OwnJobs:
        since = (self._clock() - RECENT).replace(minute=0, second=0, microsecond=0)
        groups = readable_groups(actor)
        counts = await self._store.read(own_jobs.count_own, actor.name, groups, since, MAX_COUNTED)

        async def some(*states: JobState, after: datetime | None = None) -> tuple[JobSummary, ...]:
            if states and not any(counts[state] for state in states):
                return ()
            chosen = JobFilter(user=actor.name, states=states or None, submitted_after=after)
            return (await self._jobs.list(actor, chosen, limit=FEW if states else 2 * FEW)).items

        held = await some(JobState.HELD)
        running = await some(JobState.RUNNING, JobState.PREPARING, JobState.UNKNOWN)
        waiting = await some(JobState.PENDING)
        failed = await some(JobState.FAILED, after=since)
        newest = await some()
        told = {job.id for job in (*held, *running, *waiting, *failed)}
        return OwnJobs(
            since=since,
            counts=counts,
            held=held,
            running=running,
            waiting=waiting,
            failed=failed,
            recent=tuple(job for job in newest if job.id not in told and job.state.final)[:FEW],
            any=bool(newest),
            diagnoses=await self._diagnoses(failed),
        )

    async def _diagnoses(self, failed: Sequence[JobSummary]) -> dict[str, Diagnosis]:
        found = await self._store.read(insight_rows.find_diagnoses, [job.seq for job in failed])
        told = [job for job in failed if job.seq in found]
        return {job.id: mask_diagnosis(await load_masker(self._store, job.id), found[job.seq]) for job in told}
