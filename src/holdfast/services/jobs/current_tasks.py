"""Task records of a job's current attempt."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from holdfast.core.attempt import TaskAttempt
from holdfast.core.attempt_id import AttemptId
from holdfast.core.planning.task_requests import build_task_attempts
from holdfast.core.records import TaskRecord
from holdfast.store.jobs import records as job_rows


def load_job_with_tasks(
    conn: Connection, job_id: str, attempt: int | None = None
) -> tuple[job_rows.JobDetail, list[TaskRecord]]:
    """Return a job and the tasks of an attempt, by default the current one, from one consistent read."""
    job = job_rows.load_job_detail(conn, job_id)
    return job, job_rows.list_job_tries(conn, job_id, job.summary.attempt if attempt is None else attempt)


def list_current_tasks(job: job_rows.JobDetail, tries: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    summary = job.summary
    # Tries are in order, so the newest one of each task replaces the others.
    newest = {(record.task.role, record.task.index): record for record in tries}
    missing = () if summary.state.final else build_task_attempts(job.job)
    for task in missing:
        newest.setdefault((task.role, task.index), build_task_record(summary.id, summary.attempt, task))
    order = {role.name: n for n, role in enumerate(job.job.roles)}
    return tuple(sorted(newest.values(), key=lambda r: (order.get(r.task.role, 0), r.task.index)))


def build_task_record(job_id: str, attempt: int, task: TaskAttempt) -> TaskRecord:
    """Return the record of a try that may not be stored yet."""
    attempt_id = str(AttemptId(job_id, attempt, task.role, task.index, task.number))
    return TaskRecord(job_id=job_id, attempt=attempt, task=task, attempt_id=attempt_id)
