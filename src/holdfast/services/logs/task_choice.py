"""Choosing a task when a log is requested without an exact task name."""

from __future__ import annotations

from sqlalchemy import Connection

from holdfast.core.attempt import Outcome
from holdfast.core.identity import build_unique_role_names
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.store.jobs import records as job_rows

MAX_LISTED_TASKS = 8  # tasks that an error lists


def choose_default_task(conn: Connection, job_id: str, attempt: int | None) -> str:
    """Return the task that decided this attempt, by default the newest attempt. The first task if the attempt is active
    or no single task decided it."""
    detail = job_rows.load_job_detail(conn, job_id)
    wanted = detail.summary.attempt if attempt is None else attempt
    outcome = detail.outcome if wanted == detail.summary.attempt else None
    outcome = outcome or _find_past_outcome(conn, job_id, wanted)
    return get_deciding_task(outcome) or f"{detail.job.roles[0].name}-0"


def get_deciding_task(outcome: Outcome | None) -> str | None:
    return None if outcome is None or outcome.role is None else f"{outcome.role}-{outcome.index}"


def _find_past_outcome(conn: Connection, job_id: str, attempt: int) -> Outcome | None:
    return next((past.outcome for past in job_rows.list_past_attempts(conn, job_id) if past.number == attempt), None)


def resolve_task_name(job: Job, given: str) -> str | None:
    """Return the task for a name in OpenPAI's spelling: worker-1 for Work_er-1."""
    role, _, index = given.rpartition("-")
    plain = {short: name for name, short in build_unique_role_names(each.name for each in job.roles).items()}
    return f"{plain[role]}-{index}" if role in plain else None


def format_task_names(job: Job) -> str:
    """Format all tasks if they are few (worker-0, worker-1), else by role (worker-0 to worker-99)."""
    if sum(role.instances for role in job.roles) <= MAX_LISTED_TASKS:
        return ", ".join(f"{role.name}-{index}" for role in job.roles for index in range(role.instances))
    spans = [_format_role_tasks(role.name, role.instances) for role in job.roles[:MAX_LISTED_TASKS]]
    return ", ".join([*spans, "…"] if len(job.roles) > MAX_LISTED_TASKS else spans)


def _format_role_tasks(role: str, instances: int) -> str:
    return f"{role}-0" if instances == 1 else msg("{role}-0 to {role}-{last}", role=role, last=instances - 1)
