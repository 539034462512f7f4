"""Every try of every task and of whole jobs, and which logs are due to go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, String, bindparam, text

from holdfast.core.attempt_id import AttemptId
from holdfast.core.records import JobAttempt, TaskRecord

from ..rows import attempt_of, maybe_instant, micros, storable, task_of

_TASK_NAME = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})", re.DOTALL)

_TASKS = text(
    "SELECT t.* FROM task_attempts t WHERE t.job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
    " ORDER BY t.attempt, t.role, t.task_index, t.number"
)
_TASKS_OF_ATTEMPT = text(
    "SELECT t.* FROM task_attempts t WHERE t.job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
    " AND t.attempt = :attempt ORDER BY t.role, t.task_index, t.number"
)
_TASK = text(
    "SELECT t.* FROM task_attempts t WHERE t.job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
    " AND t.attempt = :attempt AND t.role = :role AND t.task_index = :task_index AND t.number = :number"
)
_TRIES = text(
    "SELECT t.* FROM task_attempts t WHERE t.job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
    " AND t.role = :role AND t.task_index = :task_index ORDER BY t.attempt, t.number"
)
_PAST = text(
    "SELECT a.* FROM job_attempts a JOIN jobs j ON j.seq = a.job_seq WHERE j.id = :job_id"
    " AND (a.attempt < j.attempt OR j.retry_at IS NOT NULL) ORDER BY a.attempt"
)
_LOGS_DUE = text(
    "SELECT j.id, t.attempt, t.role, t.task_index, t.number FROM task_attempts t JOIN jobs j ON j.seq = t.job_seq"
    " WHERE t.job_finished_at IS NOT NULL AND t.logs_removed_at IS NULL AND t.job_finished_at < :before"
    " ORDER BY t.job_finished_at LIMIT :limit"
)
_MARK_REMOVED = text(
    "UPDATE task_attempts SET logs_removed_at = :at WHERE job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
    " AND attempt = :attempt AND role = :role AND task_index = :task_index AND number = :number"
    " AND logs_removed_at IS NULL"
)
_KNOWN = text("SELECT id FROM jobs WHERE id IN :ids").bindparams(bindparam("ids", expanding=True, type_=String))


def known(conn: Connection, job_ids: Sequence[str]) -> set[str]:
    """Which of these jobs there are."""
    return {row.id for row in conn.execute(_KNOWN, {"ids": [storable(id) for id in job_ids]})}


def tasks(conn: Connection, job_id: str, attempt: int | None = None) -> list[TaskRecord]:
    """All tries of all tasks in all attempts of a job, in that order; or those of one attempt."""
    statement, key = (_TASKS, {}) if attempt is None else (_TASKS_OF_ATTEMPT, {"attempt": attempt})
    return [record_of(job_id, row) for row in conn.execute(statement, {"job_id": storable(job_id), **key})]


def tries(conn: Connection, job_id: str, task: str) -> list[TaskRecord]:
    """All tries of one task, such as worker-3, in all attempts of a job, in that order."""
    name = split_task(task)
    if name is None:
        return []
    key = {"job_id": storable(job_id), "role": name[0], "task_index": name[1]}
    return [record_of(job_id, row) for row in conn.execute(_TRIES, key)]


def split_task(task: str) -> tuple[str, int] | None:
    """worker-3 -> its role and index; None for what no task is called."""
    match = _TASK_NAME.fullmatch(task)
    return None if match is None or storable(task) != task else (match[1], int(match[2]))


def task(conn: Connection, attempt_id: str) -> TaskRecord | None:
    key = _key(attempt_id)
    row = conn.execute(_TASK, key).one_or_none() if key else None
    return record_of(key["job_id"], row) if key and row else None


def past_attempts(conn: Connection, job_id: str) -> list[JobAttempt]:
    """Tries of the whole job before the newest one, and that one too while the next is waited for; oldest first.

    Of jobs from older releases some are not known.
    """
    return [attempt_of(row) for row in conn.execute(_PAST, {"job_id": storable(job_id)})]


def logs_due(conn: Connection, before: datetime, limit: int = 1000) -> list[str]:
    """Attempts whose job ended before then and whose logs are still there, longest ended first."""
    rows = conn.execute(_LOGS_DUE, {"before": micros(before), "limit": limit})
    return [str(AttemptId(row.id, row.attempt, row.role, row.task_index, row.number)) for row in rows]


def mark_logs_removed(conn: Connection, ids: Sequence[str], at: datetime) -> None:
    keys = [key for key in map(_key, ids) if key]
    if keys:
        conn.execute(_MARK_REMOVED, [{**key, "at": micros(at)} for key in keys])


def _key(attempt_id: str) -> dict[str, Any] | None:
    try:
        id = AttemptId.parse(attempt_id)
    except ValueError:
        return None
    if storable(attempt_id) != attempt_id:
        return None
    numbers = {"attempt": id.attempt, "task_index": id.index, "number": id.number}
    return {"job_id": id.job_id, "role": id.role, **numbers}


def record_of(job_id: str, row: Row[Any]) -> TaskRecord:
    return TaskRecord(
        job_id=job_id,
        attempt=row.attempt,
        task=task_of(row),
        attempt_id=str(AttemptId(job_id, row.attempt, row.role, row.task_index, row.number)),
        logs_removed_at=maybe_instant(row.logs_removed_at),
    )
