"""Build a job that passed validation, and hand it to the controller once it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot
from holdfast.core.messages import msg
from holdfast.core.records import NewEvent
from holdfast.core.states import JobState
from holdfast.store.jobs import records as job_rows

from ..control import Control
from ..why.feasibility import Feasibility
from .validation import JobValidator, ValidatedJob

MAX_WARNINGS = 20  # of one job, stored as events
MAX_WARNING_LENGTH = 1000
SCHEDULE_ACTOR = "holdfast"  # the actor of runs of a schedule


async def prepare_job(
    intake: JobValidator, prospects: Feasibility, actor: Actor, ready: ValidatedJob
) -> tuple[str, ...]:
    """Create what the job needs before it starts. Return its warnings, also those of a job that can never run."""
    await intake.prepare_storage(actor, ready)
    reasons = await prospects.list_impossible_reasons(ready.job, actor.name)
    never = (msg("this job can never run on this server: {reason}", reason=reason) for reason in reasons)
    return (*ready.warnings, *never)


def build_new_job(
    actor: Actor,
    ready: ValidatedJob,
    now: datetime,
    message: str,
    warnings: Sequence[str],
    *,
    schedule: str | None = None,
) -> job_rows.NewJob:
    submitter = SCHEDULE_ACTOR if schedule is not None else actor.name
    event = NewEvent(kind="submitted", message=message, at=now, actor=submitter, attempt=0, state=JobState.PENDING)
    return job_rows.NewJob(
        job=ready.job,
        user=actor.name,
        source=ready.source,
        submitted_at=now,
        event=event,
        warnings=_build_warning_events(warnings, now),
        schedule=schedule,
    )


def add_job_to_controller(control: Control, inserted: job_rows.InsertedJob, new: job_rows.NewJob) -> None:
    summary = inserted.summary
    control.add_job(JobSnapshot(id=summary.id, job=new.job, user=new.user, submitted_at=summary.submitted_at))


def _build_warning_events(warnings: Sequence[str], at: datetime) -> tuple[NewEvent, ...]:
    """Return warnings as events, so that they stay visible after the response."""
    kept = [warning[:MAX_WARNING_LENGTH] for warning in warnings[:MAX_WARNINGS]]
    if len(warnings) > MAX_WARNINGS:
        kept[-1] = msg(
            "and {count} more warnings; `holdfast plan` lists them all", count=len(warnings) - MAX_WARNINGS + 1
        )
    return tuple(NewEvent(kind="warning", message=message, at=at) for message in kept)
