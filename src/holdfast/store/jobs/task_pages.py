"""Tasks of one attempt of a job, a page at a time: a job may have thousands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, String, case, cast, exists, func, select, text

from holdfast.core.records import JobAttempt, TaskRecord
from holdfast.core.states import TaskState
from holdfast.core.task_filter import TaskFilter

from ..rows import attempt_of, storable
from ..tables import jobs, task_attempts
from .history import record_of, split_task

MAX_ORDERED_ROLES = 100  # of a job with more, tasks come by the names of the roles

_tries = task_attempts.c
_later = task_attempts.alias("later")
_NEWEST = ~exists(
    select(1).where(
        _later.c.job_seq == _tries.job_seq,
        _later.c.attempt == _tries.attempt,
        _later.c.role == _tries.role,
        _later.c.task_index == _tries.task_index,
        _later.c.number > _tries.number,
    )
)
_TRIES = text(
    "SELECT t.* FROM task_attempts t WHERE t.job_seq = (SELECT seq FROM jobs WHERE id = :job_id)"
    " AND t.role = :role AND t.task_index = :task_index ORDER BY t.attempt DESC, t.number DESC LIMIT :limit"
)
_ATTEMPTS = text(
    "SELECT a.* FROM job_attempts a JOIN jobs j ON j.seq = a.job_seq WHERE j.id = :job_id"
    " AND (a.attempt < j.attempt OR j.retry_at IS NOT NULL) ORDER BY a.attempt DESC LIMIT :limit"
)


def task_page(
    conn: Connection,
    job_id: str,
    attempt: int,
    filter: TaskFilter,
    *,
    roles: Sequence[str],
    offset: int,
    limit: int,
) -> list[TaskRecord]:
    """The newest try of each task that fits, in the order of `roles`."""
    ordered = 1 < len(roles) <= MAX_ORDERED_ROLES  # tasks of one role lie in order as they are
    places = {role: at for at, role in enumerate(roles)}
    first: list[ColumnElement[Any]] = [case(places, value=_tries.role, else_=len(roles))] if ordered else []
    rows = select(task_attempts).where(*_of_attempt(job_id, attempt), *_conditions(filter))
    rows = rows.order_by(*first, _tries.role, _tries.task_index).offset(offset).limit(limit)
    return [record_of(job_id, row) for row in conn.execute(rows)]


def count_fitting(conn: Connection, job_id: str, attempt: int, filter: TaskFilter) -> int:
    """How many tasks fit, on all pages together."""
    fitting = (*_of_attempt(job_id, attempt), *_conditions(filter))
    return int(conn.scalar(select(func.count()).select_from(task_attempts).where(*fitting)) or 0)


def task_counts(conn: Connection, job_id: str, attempt: int) -> dict[str, dict[TaskState, int]]:
    """Role -> state -> how many tasks are in it, by their newest try."""
    query = select(_tries.role, _tries.state, func.count()).where(*_of_attempt(job_id, attempt))
    found: dict[str, dict[TaskState, int]] = {}
    for role, state, count in conn.execute(query.group_by(_tries.role, _tries.state)):
        found.setdefault(role, {})[TaskState(state)] = count
    return found


def newest_tries(conn: Connection, job_id: str, task: str, limit: int) -> list[TaskRecord]:
    """Tries of one task, such as worker-3, in all attempts of a job; the last one first."""
    name = split_task(task)
    if name is None:
        return []
    key = {"job_id": storable(job_id), "role": name[0], "task_index": name[1], "limit": limit}
    return [record_of(job_id, row) for row in conn.execute(_TRIES, key)]


def newest_attempts(conn: Connection, job_id: str, limit: int) -> list[JobAttempt]:
    """Tries of the whole job that are over, as `past_attempts` tells them; the last one first."""
    return [attempt_of(row) for row in conn.execute(_ATTEMPTS, {"job_id": storable(job_id), "limit": limit})]


def _of_attempt(job_id: str, attempt: int) -> list[ColumnElement[bool]]:
    seq: Select[Any] = select(jobs.c.seq).where(jobs.c.id == storable(job_id))
    return [_tries.job_seq == seq.scalar_subquery(), _tries.attempt == attempt, _NEWEST]


def _conditions(filter: TaskFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if filter.role is not None:
        found.append(_tries.role == storable(filter.role))
    if filter.state is not None:
        found.append(_tries.state == filter.state.value)
    if filter.node is not None:
        found.append(_tries.node == storable(filter.node))
    # How `rows.exit_to_json` writes them; a quote within a message is never bare, so no message looks like that.
    if filter.kind is not None:
        found.append(_tries.exit_json.like(f'{{"kind":"{filter.kind.value}",%'))
    if filter.code is not None:
        found.append(_tries.exit_json.like(f'%,"code":{int(filter.code)},"signal":%'))
    if filter.text:
        name = _tries.role + "-" + cast(_tries.task_index, String) + " " + func.coalesce(_tries.node, "")
        found.append(func.lower(name).contains(storable(filter.text.lower()), autoescape=True))
    return found
