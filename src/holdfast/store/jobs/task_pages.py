"""Pages of the tasks of one attempt: a job may have thousands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, String, case, cast, exists, func, or_, select, text

from holdfast.core.records import JobAttempt, TaskRecord
from holdfast.core.states import TaskState
from holdfast.core.task_filter import TaskFilter

from ..rows import make_storable
from ..tables import jobs, task_attempts
from .history import PAST_ATTEMPTS_SQL, TASK_TRIES_SQL, parse_task_name, task_record_from_row
from .rows import attempt_from_row

MAX_ORDERED_ROLES = 100  # with more, tasks are sorted by role name

_TRY_COLUMNS = task_attempts.c
_LATER_TRIES = task_attempts.alias("later")
_IS_NEWEST_TRY = ~exists(
    select(1).where(
        _LATER_TRIES.c.job_seq == _TRY_COLUMNS.job_seq,
        _LATER_TRIES.c.attempt == _TRY_COLUMNS.attempt,
        _LATER_TRIES.c.role == _TRY_COLUMNS.role,
        _LATER_TRIES.c.task_index == _TRY_COLUMNS.task_index,
        _LATER_TRIES.c.number > _TRY_COLUMNS.number,
    )
)
_SELECT_NEWEST_TRIES = text(f"{TASK_TRIES_SQL} ORDER BY t.attempt DESC, t.number DESC LIMIT :limit")
_SELECT_NEWEST_ATTEMPTS = text(f"{PAST_ATTEMPTS_SQL} ORDER BY a.attempt DESC LIMIT :limit")


def list_task_page(
    conn: Connection, job_id: str, attempt: int, filter: TaskFilter, *, roles: Sequence[str], offset: int, limit: int
) -> list[TaskRecord]:
    """Return the newest try of each matching task, in the order of `roles`."""
    ordered = 1 < len(roles) <= MAX_ORDERED_ROLES  # tasks of one role are already in order
    places = {role: at for at, role in enumerate(roles)}
    first: list[ColumnElement[Any]] = [case(places, value=_TRY_COLUMNS.role, else_=len(roles))] if ordered else []
    rows = select(task_attempts).where(*_build_attempt_conditions(job_id, attempt), *_build_filter_conditions(filter))
    rows = rows.order_by(*first, _TRY_COLUMNS.role, _TRY_COLUMNS.task_index).offset(offset).limit(limit)
    return [task_record_from_row(job_id, row) for row in conn.execute(rows)]


def count_matching_tasks(conn: Connection, job_id: str, attempt: int, filter: TaskFilter) -> int:
    fitting = (*_build_attempt_conditions(job_id, attempt), *_build_filter_conditions(filter))
    return int(conn.scalar(select(func.count()).select_from(task_attempts).where(*fitting)) or 0)


def count_tasks_by_state(conn: Connection, job_id: str, attempt: int) -> dict[str, dict[TaskState, int]]:
    """Count tasks by role and state of their newest try."""
    query = select(_TRY_COLUMNS.role, _TRY_COLUMNS.state, func.count()).where(
        *_build_attempt_conditions(job_id, attempt)
    )
    found: dict[str, dict[TaskState, int]] = {}
    for role, state, count in conn.execute(query.group_by(_TRY_COLUMNS.role, _TRY_COLUMNS.state)):
        found.setdefault(role, {})[TaskState(state)] = count
    return found


def list_newest_tries(conn: Connection, job_id: str, task: str, limit: int) -> list[TaskRecord]:
    """Return tries of one task, such as worker-3, in all attempts of a job, newest first."""
    name = parse_task_name(task)
    if name is None:
        return []
    key = {"job_id": make_storable(job_id), "role": name[0], "task_index": name[1], "limit": limit}
    return [task_record_from_row(job_id, row) for row in conn.execute(_SELECT_NEWEST_TRIES, key)]


def list_newest_attempts(conn: Connection, job_id: str, limit: int) -> list[JobAttempt]:
    """Return ended attempts, as in `list_past_attempts`, newest first."""
    return [
        attempt_from_row(row)
        for row in conn.execute(_SELECT_NEWEST_ATTEMPTS, {"job_id": make_storable(job_id), "limit": limit})
    ]


def _build_attempt_conditions(job_id: str, attempt: int) -> list[ColumnElement[bool]]:
    seq: Select[Any] = select(jobs.c.seq).where(jobs.c.id == make_storable(job_id))
    return [_TRY_COLUMNS.job_seq == seq.scalar_subquery(), _TRY_COLUMNS.attempt == attempt, _IS_NEWEST_TRY]


def _build_filter_conditions(filter: TaskFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if filter.role is not None:
        found.append(_TRY_COLUMNS.role == make_storable(filter.role))
    if filter.state is not None:
        found.append(_TRY_COLUMNS.state == filter.state.value)
    if filter.node is not None:
        name = make_storable(filter.node)
        found.append(or_(_TRY_COLUMNS.node == name, _TRY_COLUMNS.host == name))
    # As written by `mapping`, in the order of the fields. Quotes within a message are escaped, so none can match.
    if filter.kind is not None:
        found.append(_TRY_COLUMNS.exit_json.like(f'{{"kind":"{filter.kind.value}",%'))
    if filter.code is not None:
        found.append(_TRY_COLUMNS.exit_json.like(f'%,"code":{int(filter.code)},"signal":%'))
    if filter.text:
        task = _TRY_COLUMNS.role + "-" + cast(_TRY_COLUMNS.task_index, String)
        node, host = func.coalesce(_TRY_COLUMNS.node, ""), func.coalesce(_TRY_COLUMNS.host, "")
        searched = task + " " + node + " " + host
        found.append(func.lower(searched).contains(make_storable(filter.text.lower()), autoescape=True))
    return found
