"""Rows of jobs, attempts, tasks and events."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from holdfast.core.attempt import JobSnapshot, StopRequest, TaskAttempt
from holdfast.core.job import Job
from holdfast.core.records import JobAttempt, JobSummary, NewEvent
from holdfast.core.states import JobState

from ..mapping import record_from_json, record_from_row, record_to_row
from ..rows import make_storable, to_json
from ..tables import events, job_attempts, jobs, task_attempts

SUMMARY_COLUMNS = (
    "seq, id, name, user_name, group_name, state, message, submitted_at, started_at, finished_at, exit_code, exit_kind,"
    " attempt, task_count, cpu, memory, gpu, priority, dialect, tags_json, rerun_of, stop_json, role_count,"
    " user_retries, platform_retries, retry_at, exit_cause, schedule_id"
)


def snapshot_to_row(snapshot: JobSnapshot) -> dict[str, Any]:
    """Return the columns of a job that change during its life, and some that do not."""
    exit = snapshot.exit
    return record_to_row(
        snapshot,
        jobs,
        exit_code=exit.code if exit else None,
        exit_kind=exit.kind.value if exit else None,
        exit_cause=(make_storable(exit.cause) or None) if exit else None,
    )


def job_to_row(job: Job) -> dict[str, Any]:
    """Return the columns of a job's resource request."""
    roles = job.roles
    return {
        "name": job.name,
        "group_name": job.group,
        "task_count": job.task_count,
        "role_count": len(roles),
        "cpu": sum(role.instances * role.resources.cpu for role in roles),
        "memory": sum(role.instances * role.resources.memory for role in roles),
        "gpu": sum(role.instances * role.resources.gpu for role in roles),
        "priority": job.priority,
        "dialect": job.dialect.value,
        "tags_json": to_json(job.tags) if job.tags else None,
    }


def summary_from_row(row: Row[Any]) -> JobSummary:
    stop = record_from_json(StopRequest, json.loads(row.stop_json)) if row.stop_json else None
    stopping = stop is not None and not JobState(row.state).final
    return record_from_row(JobSummary, row, stopping=stopping, stop_why=stop.why if stop else "")


def attempt_to_row(attempt: JobAttempt) -> dict[str, Any]:
    return record_to_row(attempt, job_attempts, attempt=attempt.number)


def attempt_from_row(row: Row[Any]) -> JobAttempt:
    return record_from_row(JobAttempt, row, number=row.attempt)


def task_to_row(task: TaskAttempt) -> dict[str, Any]:
    return record_to_row(task, task_attempts)


def task_from_row(row: Row[Any]) -> TaskAttempt:
    ports = json.loads(row.ports_json) if row.ports_json else {}
    return record_from_row(TaskAttempt, row, ports={label: tuple(numbers) for label, numbers in ports.items()})


def event_to_row(job_seq: int, event: NewEvent) -> dict[str, Any]:
    return record_to_row(event, events, job_seq=job_seq)
