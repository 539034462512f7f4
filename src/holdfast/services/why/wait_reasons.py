"""Reasons of pending jobs in a list, computed from the current queue and never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.records import JobSummary
from holdfast.core.states import JobState

from ..control import Control

MAX_EXPLAINED_JOBS = 20  # jobs of one list; each is compared with the queue and the nodes
MAX_EXPLAINED_TASKS = 200  # larger jobs are not explained


def add_wait_reasons(jobs: Sequence[JobSummary], control: Control) -> tuple[JobSummary, ...]:
    """Add the first reason to pending jobs without a message."""
    silent = [job.id for job in jobs if job.state is JobState.PENDING and not job.message]
    chosen = set(silent[:MAX_EXPLAINED_JOBS])
    return tuple(_add_wait_reason(job, control) if job.id in chosen else job for job in jobs)


def _add_wait_reason(job: JobSummary, control: Control) -> JobSummary:
    reasons = control.list_wait_reasons(job.id) if job.task_count <= MAX_EXPLAINED_TASKS else ()
    return replace(job, message=reasons[0]) if reasons else job
