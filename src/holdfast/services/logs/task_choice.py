"""Which task is meant when a log is asked for without its exact name."""

from __future__ import annotations

from sqlalchemy import Connection

from holdfast.core.attempt import Outcome
from holdfast.core.identity import plain_roles
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.store.jobs import records as job_rows

MAX_NAMED = 8  # tasks that an error lists


def usual_task(conn: Connection, job_id: str, attempt: int | None) -> str:
    """The one that decided this attempt, or the newest: of a role whose successes were enough, the last of them. The
    first one while it goes on, or when all had to end."""
    detail = job_rows.get(conn, job_id)
    wanted = detail.summary.attempt if attempt is None else attempt
    outcome = detail.outcome if wanted == detail.summary.attempt else None
    outcome = outcome or _past(conn, job_id, wanted)
    return decided_by(outcome) or f"{detail.job.roles[0].name}-0"


def decided_by(outcome: Outcome | None) -> str | None:
    """The task that made it so; None while it goes on, or when all had to end."""
    return None if outcome is None or outcome.role is None else f"{outcome.role}-{outcome.index}"


def _past(conn: Connection, job_id: str, attempt: int) -> Outcome | None:
    return next((past.outcome for past in job_rows.past_attempts(conn, job_id) if past.number == attempt), None)


def meant_task(job: Job, given: str) -> str | None:
    """The task of this name, spelled as OpenPAI's programs see it: worker-1 for Work_er-1."""
    role, _, index = given.rpartition("-")
    plain = {short: name for name, short in plain_roles(each.name for each in job.roles).items()}
    return f"{plain[role]}-{index}" if role in plain else None


def task_names(job: Job) -> str:
    """All of them, when they are few: worker-0, worker-1; else by role: worker-0 to worker-99."""
    if sum(role.instances for role in job.roles) <= MAX_NAMED:
        return ", ".join(f"{role.name}-{index}" for role in job.roles for index in range(role.instances))
    spans = [_span(role.name, role.instances) for role in job.roles[:MAX_NAMED]]
    return ", ".join([*spans, "…"] if len(job.roles) > MAX_NAMED else spans)


def _span(role: str, instances: int) -> str:
    return f"{role}-0" if instances == 1 else msg("{role}-0 to {role}-{x1}", role=role, x1=instances - 1)
