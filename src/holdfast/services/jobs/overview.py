"""Overview of a user's own jobs and recent failures."""

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

from ..job_lookup import list_readable_groups
from ..why.secret_masks import load_masker, mask_diagnosis
from .service import Jobs

RECENT_PERIOD = timedelta(days=7)
MAX_COUNTED = 1000  # of each state; higher counts are not shown
MAX_SHOWN = 5  # jobs of each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnJobs:
    """A user's active jobs, and the final jobs submitted after `since`."""

    since: datetime
    counts: Mapping[JobState, int]  # none above MAX_COUNTED
    held: tuple[JobSummary, ...]
    running: tuple[JobSummary, ...]
    waiting: tuple[JobSummary, ...]
    failed: tuple[JobSummary, ...]
    recent: tuple[JobSummary, ...]  # other final jobs
    any: bool  # whether the user ever had a job
    diagnoses: Mapping[str, Diagnosis]  # job id -> why it failed, if already known


class Overview:
    def __init__(self, store: Store, jobs: Jobs, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._jobs = jobs
        self._clock = clock

    async def load_own_jobs(self, actor: Actor) -> OwnJobs:
        since = (self._clock() - RECENT_PERIOD).replace(minute=0, second=0, microsecond=0)
        groups = list_readable_groups(actor)
        counts = await self._store.read(own_jobs.count_user_jobs_by_state, actor.name, groups, since, MAX_COUNTED)

        async def list_by_state(*states: JobState, after: datetime | None = None) -> tuple[JobSummary, ...]:
            if states and not any(counts[state] for state in states):
                return ()
            chosen = JobFilter(user=actor.name, states=states or None, submitted_after=after)
            return (await self._jobs.list(actor, chosen, limit=MAX_SHOWN if states else 2 * MAX_SHOWN)).items

        held = await list_by_state(JobState.HELD)
        running = await list_by_state(JobState.RUNNING, JobState.PREPARING, JobState.UNKNOWN)
        waiting = await list_by_state(JobState.PENDING)
        failed = await list_by_state(JobState.FAILED, after=since)
        newest = await list_by_state()
        shown = {job.id for job in (*held, *running, *waiting, *failed)}
        return OwnJobs(
            since=since,
            counts=counts,
            held=held,
            running=running,
            waiting=waiting,
            failed=failed,
            recent=tuple(job for job in newest if job.id not in shown and job.state.final)[:MAX_SHOWN],
            any=bool(newest),
            diagnoses=await self._load_diagnoses(failed),
        )

    async def _load_diagnoses(self, failed: Sequence[JobSummary]) -> dict[str, Diagnosis]:
        found = await self._store.read(insight_rows.load_diagnoses, [job.seq for job in failed])
        diagnosed = [job for job in failed if job.seq in found]
        return {job.id: mask_diagnosis(await load_masker(self._store, job.id), found[job.seq]) for job in diagnosed}
