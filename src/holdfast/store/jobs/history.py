"""Tries of tasks, attempts of jobs, and expired logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, String, bindparam, text

from holdfast.core.attempt_id import AttemptId
from holdfast.core.records import JobAttempt, TaskRecord

from ..rows import from_optional_micros, make_storable, to_micros
from .rows import attempt_from_row, task_from_row

_TASK_NAME_PATTERN = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})", re.DOTALL)

JOB_TRIES_SQL = "SELECT t.* FROM task_attempts t WHERE t.job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
TASK_TRIES_SQL = f"{JOB_TRIES_SQL} AND t.role = :role AND t.task_index = :task_index"
PAST_ATTEMPTS_SQL = (
    "SELECT a.* FROM job_attempts a JOIN jobs j ON j.seq = a.job_seq WHERE j.id = :job_id"
    " AND (a.attempt < j.attempt OR j.retry_at IS NOT NULL)"
)
_SELECT_JOB_TRIES = text(f"{JOB_TRIES_SQL} ORDER BY t.attempt, t.role, t.task_index, t.number")
_SELECT_ATTEMPT_TRIES = text(f"{JOB_TRIES_SQL} AND t.attempt = :attempt ORDER BY t.role, t.task_index, t.number")
_SELECT_TRY = text(f"{TASK_TRIES_SQL} AND t.attempt = :attempt AND t.number = :number")
_SELECT_TASK_TRIES = text(f"{TASK_TRIES_SQL} ORDER BY t.attempt, t.number")
_SELECT_PAST_ATTEMPTS = text(f"{PAST_ATTEMPTS_SQL} ORDER BY a.attempt")
_SELECT_EXPIRED_LOGS = text(
    "SELECT j.id, t.attempt, t.role, t.task_index, t.number FROM task_attempts t JOIN jobs j ON j.seq = t.job_seq"
    " WHERE t.job_finished_at IS NOT NULL AND t.logs_removed_at IS NULL AND t.job_finished_at < :before"
    " ORDER BY t.job_finished_at LIMIT :limit"
)
_UPDATE_LOGS_REMOVED_AT = text(
    "UPDATE task_attempts SET logs_removed_at = :at WHERE job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
    " AND attempt = :attempt AND role = :role AND task_index = :task_index AND number = :number"
    " AND logs_removed_at IS NULL"
)
_EXISTING_JOBS = text("SELECT id FROM jobs WHERE id IN :ids").bindparams(bindparam("ids", expanding=True, type_=String))


def filter_existing_jobs(conn: Connection, job_ids: Sequence[str]) -> set[str]:
    return {row.id for row in conn.execute(_EXISTING_JOBS, {"ids": [make_storable(id) for id in job_ids]})}


def list_job_tries(conn: Connection, job_id: str, attempt: int | None = None) -> list[TaskRecord]:
    """Return all tries of all tasks of a job, sorted by attempt; or those of one attempt."""
    statement, key = (_SELECT_JOB_TRIES, {}) if attempt is None else (_SELECT_ATTEMPT_TRIES, {"attempt": attempt})
    return [
        task_record_from_row(job_id, row) for row in conn.execute(statement, {"job_id": make_storable(job_id), **key})
    ]


def list_tries_of_task(conn: Connection, job_id: str, task: str) -> list[TaskRecord]:
    """Return all tries of one task, such as worker-3, in all attempts of a job, in order."""
    name = parse_task_name(task)
    if name is None:
        return []
    key = {"job_id": make_storable(job_id), "role": name[0], "task_index": name[1]}
    return [task_record_from_row(job_id, row) for row in conn.execute(_SELECT_TASK_TRIES, key)]


def parse_task_name(task: str) -> tuple[str, int] | None:
    """Split worker-3 into role and index; None if it is not a task name."""
    match = _TASK_NAME_PATTERN.fullmatch(task)
    return None if match is None or make_storable(task) != task else (match[1], int(match[2]))


def find_task_try(conn: Connection, attempt_id: str) -> TaskRecord | None:
    key = _parse_attempt_key(attempt_id)
    row = conn.execute(_SELECT_TRY, key).one_or_none() if key else None
    return task_record_from_row(key["job_id"], row) if key and row else None


def list_past_attempts(conn: Connection, job_id: str) -> list[JobAttempt]:
    """Return attempts before the newest one, and that one too while the next is pending; oldest first.

    Some attempts of jobs from older releases are not recorded.
    """
    return [attempt_from_row(row) for row in conn.execute(_SELECT_PAST_ATTEMPTS, {"job_id": make_storable(job_id)})]


def list_expired_logs(conn: Connection, before: datetime, limit: int = 1000) -> list[str]:
    """Return task attempts whose job ended before a time and whose logs exist, longest ended first."""
    rows = conn.execute(_SELECT_EXPIRED_LOGS, {"before": to_micros(before), "limit": limit})
    return [str(AttemptId(row.id, row.attempt, row.role, row.task_index, row.number)) for row in rows]


def mark_logs_removed(conn: Connection, ids: Sequence[str], at: datetime) -> None:
    keys = [key for key in map(_parse_attempt_key, ids) if key]
    if keys:
        conn.execute(_UPDATE_LOGS_REMOVED_AT, [{**key, "at": to_micros(at)} for key in keys])


def _parse_attempt_key(attempt_id: str) -> dict[str, Any] | None:
    try:
        id = AttemptId.parse(attempt_id)
    except ValueError:
        return None
    if make_storable(attempt_id) != attempt_id:
        return None
    numbers = {"attempt": id.attempt, "task_index": id.index, "number": id.number}
    return {"job_id": id.job_id, "role": id.role, **numbers}


def task_record_from_row(job_id: str, row: Row[Any]) -> TaskRecord:
    return TaskRecord(
        job_id=job_id,
        attempt=row.attempt,
        task=task_from_row(row),
        attempt_id=str(AttemptId(job_id, row.attempt, row.role, row.task_index, row.number)),
        logs_removed_at=from_optional_micros(row.logs_removed_at),
    )
