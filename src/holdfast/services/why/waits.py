"""Why jobs in a list wait: worked out from the queue as it stands, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.records import JobSummary
from holdfast.core.states import JobState

from ..control import Control

MAX_EXPLAINED = 20  # jobs of one list; each is compared with the queue and the machines
MAX_TASKS = 200  # of a job that is explained


def with_reasons(jobs: Sequence[JobSummary], control: Control) -> tuple[JobSummary, ...]:
    """Those that wait and do not say why are given their first reason."""
    silent = [job.id for job in jobs if job.state is JobState.PENDING and not job.message]
    chosen = set(silent[:MAX_EXPLAINED])
    return tuple(_explained(job, control) if job.id in chosen else job for job in jobs)


def _explained(job: JobSummary, control: Control) -> JobSummary:
    reasons = control.waiting(job.id) if job.task_count <= MAX_TASKS else ()
    return replace(job, message=reasons[0]) if reasons else job
