"""Jobs: submission, loading and saving. Lists are in `listing` and `lookup`, tries in `history`.

The submission is written once; only one narrow row changes. Functions that write may be run again after a rollback
(see `Store.write`).
"""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from holdfast.core.attempt import JobSnapshot, Outcome, StopRequest, TaskAttempt
from holdfast.core.codec import job_from_json, job_to_json
from holdfast.core.errors import Conflict, JobNotFound
from holdfast.core.exits.exit import Exit
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.records import JobAttempt, JobSummary, NewEvent
from holdfast.core.states import FINAL_STATES, JobState

from ..connections import get_vault
from ..errors import NameInUse, StaleVersion
from ..mapping import record_from_row
from ..rows import MICROS_PER_HOUR, build_search_text, make_storable, to_json, to_micros, to_optional_micros
from ..statements import build_upsert
from ..tables import job_attempts, task_attempts
from .events import insert_events
from .history import (
    filter_existing_jobs,
    find_task_try,
    list_expired_logs,
    list_job_tries,
    list_past_attempts,
    list_tries_of_task,
    mark_logs_removed,
)
from .listing import count_jobs_by_state, list_job_page
from .lookup import find_job, find_newest_named_job, is_name_used
from .numbered_pages import list_numbered_page
from .rows import (
    SUMMARY_COLUMNS,
    attempt_to_row,
    event_to_row,
    job_to_row,
    snapshot_to_row,
    summary_from_row,
    task_from_row,
    task_to_row,
)
from .tags import add_tag, insert_tags, remove_tag

__all__ = [
    "InsertedJob",
    "JobChange",
    "JobDetail",
    "NewJob",
    "add_tag",
    "count_jobs_by_state",
    "filter_existing_jobs",
    "find_job",
    "find_newest_named_job",
    "find_task_try",
    "insert_job",
    "insert_jobs",
    "is_name_used",
    "list_expired_logs",
    "list_job_page",
    "list_job_tries",
    "list_numbered_page",
    "list_past_attempts",
    "list_tries_of_task",
    "load_active_jobs",
    "load_job_detail",
    "load_snapshot",
    "mark_logs_removed",
    "remove_tag",
    "save_job_changes",
]

MAX_KEPT_TRIES = 100  # per job: logs of older tries are deleted

ACTIVE_STATES = tuple(state.value for state in JobState if state not in FINAL_STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    job: Job
    user: str
    source: str  # as submitted, secrets masked
    submitted_at: datetime
    event: NewEvent
    warnings: tuple[NewEvent, ...] = ()  # shown to the user
    idempotency_key: str | None = None
    rerun_of: str | None = None
    unique_name: bool = False  # reject a name that this user has used before
    schedule: str | None = None  # id of the schedule that submitted it


@dataclass(frozen=True, slots=True)
class InsertedJob:
    summary: JobSummary
    created: bool  # False: this user sent the same key before, and this is that job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A change of a job, saved if the job is still at `before_version`. `after.version` must be higher."""

    before_version: int
    after: JobSnapshot
    tasks: tuple[TaskAttempt, ...] = ()  # those of `after.attempt` that changed
    events: tuple[NewEvent, ...] = ()
    attempts: tuple[JobAttempt, ...] = ()  # of the job that have ended


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    summary: JobSummary
    job: Job  # its secrets masked
    source: str
    stop: StopRequest | None
    outcome: Outcome | None
    exit: Exit | None
    user_retries: int
    platform_retries: int
    retry_at: datetime | None
    attempt_started_at: datetime | None
    version: int


# -- submitting

_SELECT_BY_KEY = text(
    f"SELECT {SUMMARY_COLUMNS}, (SELECT source FROM job_specs WHERE job_seq = seq) AS source FROM jobs"  # noqa: S608
    " WHERE user_name = :user AND idempotency_key = :key"
)
_INSERT_JOB = text(
    "INSERT INTO jobs (id, name, user_name, group_name, state, message, submitted_at, attempt, task_count, cpu, memory,"
    " gpu, priority, dialect, tags_json, rerun_of, idempotency_key, user_retries, platform_retries, version, search,"
    " role_count, schedule_id)"
    " VALUES (:id, :name, :user_name, :group_name, :state, '', :submitted_at, 0, :task_count, :cpu, :memory,"
    " :gpu, :priority, :dialect, :tags_json, :rerun_of, :idempotency_key, 0, 0, 0, :search, :role_count, :schedule_id)"
    " ON CONFLICT (id) DO NOTHING RETURNING seq"
)
_INSERT_SPEC = text(
    "INSERT INTO job_specs (job_seq, spec_json, source, secrets) VALUES (:job_seq, :spec_json, :source, :secrets)"
)
_UPSERT_HOUR = text(
    "INSERT INTO job_hours (hour, first_seq, last_seq) VALUES (:hour, :seq, :seq)"
    " ON CONFLICT (hour) DO UPDATE SET last_seq = excluded.last_seq"
)
_INSERT_NOTIFYING_JOB = text("INSERT INTO notice_jobs (job_seq) VALUES (:seq)")
_INSERT_SEARCH_TEXT = text("INSERT INTO job_search (rowid, text) VALUES (:seq, :text)")


def insert_job(conn: Connection, *, new: NewJob) -> InsertedJob:
    """Insert a job with a new id; or return the earlier one if this user sent the same idempotency key before.

    NameInUse if the name must be unique and is not.
    """
    if new.idempotency_key is not None:
        earlier = conn.execute(_SELECT_BY_KEY, {"user": new.user, "key": new.idempotency_key}).one_or_none()
        if earlier is not None:
            return _resolve_idempotent_job(earlier, new)
    if new.unique_name and is_name_used(conn, new.user, new.job.name):
        raise NameInUse(new.user, new.job.name)
    return insert_jobs(conn, [new])[0]


def insert_jobs(conn: Connection, news: Sequence[NewJob]) -> list[InsertedJob]:
    """Insert new jobs together. The caller has checked keys and names."""
    rows = [(new, *_insert_job_row(conn, new)) for new in news]
    conn.execute(
        _INSERT_SPEC, _unwrap_single([_spec_to_row(conn, seq, values["id"], new) for new, seq, values in rows])
    )
    conn.execute(
        _UPSERT_HOUR,
        _unwrap_single([{"hour": values["submitted_at"] // MICROS_PER_HOUR, "seq": seq} for _, seq, values in rows]),
    )
    if conn.dialect.name == "sqlite":
        conn.execute(
            _INSERT_SEARCH_TEXT, _unwrap_single([{"seq": seq, "text": values["search"]} for _, seq, values in rows])
        )
    for new, seq, _ in rows:
        if new.job.tags:
            insert_tags(conn, seq, new.job.tags)
        if new.job.notify:
            conn.execute(_INSERT_NOTIFYING_JOB, {"seq": seq})
    insert_events(conn, [event_to_row(seq, event) for new, seq, _ in rows for event in (new.event, *new.warnings)])
    return [InsertedJob(_build_new_summary(new, seq, values), created=True) for new, seq, values in rows]


def _insert_job_row(conn: Connection, new: NewJob) -> tuple[int, dict[str, Any]]:
    """Insert the row; return its seq, and its values with the new id."""
    values = {
        **job_to_row(new.job),
        "user_name": new.user,
        "state": JobState.PENDING.value,
        "submitted_at": to_micros(new.submitted_at),
        "rerun_of": new.rerun_of,
        "idempotency_key": new.idempotency_key,
        "schedule_id": new.schedule,
    }
    seq = None
    while seq is None:  # until the id is unique
        values["id"] = generate_job_id(new.submitted_at)
        values["search"] = build_search_text(new.job.name, values["id"])
        seq = conn.scalar(_INSERT_JOB, values)
    return seq, values


def _unwrap_single(values: list[dict[str, Any]]) -> Any:
    """Return a single entry without the list, which is faster."""
    return values[0] if len(values) == 1 else values


def generate_job_id(at: datetime) -> str:
    """Generate an id with the submission time that cannot be guessed from another."""
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(6))
    return f"job-{at.astimezone(UTC):%Y%m%d%H%M}-{letters}"


_ALPHABET = string.ascii_lowercase + string.digits


def _resolve_idempotent_job(row: Row[Any], new: NewJob) -> InsertedJob:
    if row.source != new.source:
        raise Conflict(
            msg("This idempotency key is already in use by another job ({id})", id=row.id),
            field="idempotency_key",
            hint=msg("Use a new key for each job. Reuse a key only to submit the same job again."),
        )
    return InsertedJob(summary_from_row(row), created=False)


def _spec_to_row(conn: Connection, seq: int, id: str, new: NewJob) -> dict[str, Any]:
    sealed = None
    if new.job.secrets:
        sealed = get_vault(conn).seal(to_json(dict(new.job.secrets)).encode(), about=id)
    spec = to_json(job_to_json(new.job, secrets=False))
    return {"job_seq": seq, "spec_json": spec, "source": new.source, "secrets": sealed}


def _build_new_summary(new: NewJob, seq: int, values: Mapping[str, Any]) -> JobSummary:
    counts = {name: values[name] for name in ("id", "task_count", "role_count", "cpu", "memory", "gpu")}
    return JobSummary(
        **counts,
        seq=seq,
        name=new.job.name,
        user=new.user,
        group=new.job.group,
        state=JobState.PENDING,
        message="",
        submitted_at=new.submitted_at.astimezone(UTC),
        started_at=None,
        finished_at=None,
        exit_code=None,
        exit_kind=None,
        attempt=0,
        priority=new.job.priority,
        dialect=new.job.dialect,
        tags=new.job.tags,
        rerun_of=new.rerun_of,
        schedule=new.schedule,
    )


# -- loading and saving

_SNAPSHOT_SQL = (
    "SELECT j.seq, j.id, j.user_name, j.submitted_at, j.state, j.message, j.attempt, j.started_at,"
    " j.attempt_started_at, j.finished_at, j.exit_json, j.stop_json, j.outcome_json, j.user_retries,"
    " j.platform_retries, j.retry_at, j.version, s.spec_json, s.secrets"
    " FROM jobs j JOIN job_specs s ON s.job_seq = j.seq"
)
_SELECT_ACTIVE_JOBS = text(f"{_SNAPSHOT_SQL} WHERE j.state IN :states ORDER BY j.seq").bindparams(
    bindparam("states", ACTIVE_STATES, expanding=True)
)
_SELECT_JOB = text(f"{_SNAPSHOT_SQL} WHERE j.id = :id")
_CURRENT_TASKS_SQL = "SELECT t.* FROM jobs j JOIN task_attempts t ON t.job_seq = j.seq AND t.attempt = j.attempt"
_SELECT_ACTIVE_TASKS = text(f"{_CURRENT_TASKS_SQL} WHERE j.state IN :states").bindparams(
    bindparam("states", ACTIVE_STATES, expanding=True)
)
_SELECT_USED_ENGINES = text(
    "SELECT DISTINCT t.engine FROM jobs j JOIN task_attempts t ON t.job_seq = j.seq AND t.attempt = j.attempt"
    " WHERE j.state IN :states AND t.engine IS NOT NULL AND t.engine <> ''"
).bindparams(bindparam("states", ACTIVE_STATES, expanding=True))
_SELECT_JOB_TASKS = text(f"{_CURRENT_TASKS_SQL} WHERE j.id = :id")


def load_active_jobs(conn: Connection) -> list[JobSnapshot]:
    """Load all jobs that are not final, oldest first, with secrets."""
    newest = _group_newest_tries(conn.execute(_SELECT_ACTIVE_TASKS))
    return [_snapshot_from_row(conn, row, newest.get(row.seq, {})) for row in conn.execute(_SELECT_ACTIVE_JOBS)]


def list_used_engines(conn: Connection) -> list[str]:
    """Return the engines of placed tasks of all jobs that are not final."""
    return [str(name) for name in conn.scalars(_SELECT_USED_ENGINES)]


def load_snapshot(conn: Connection, id: str) -> JobSnapshot:
    """Load one job with secrets; NotFound if it does not exist."""
    row = conn.execute(_SELECT_JOB, {"id": make_storable(id)}).one_or_none()
    if row is None:
        raise JobNotFound(msg("Job {id} not found", id=id))
    newest = _group_newest_tries(conn.execute(_SELECT_JOB_TASKS, {"id": id}))
    return _snapshot_from_row(conn, row, newest.get(row.seq, {}))


_Tries = dict[tuple[str, int], TaskAttempt]


def _group_newest_tries(rows: Iterable[Row[Any]]) -> dict[int, _Tries]:
    """Group the newest tries by job, then by role and index."""
    newest: dict[int, _Tries] = {}
    for row in rows:
        tries = newest.setdefault(row.job_seq, {})
        known = tries.get((row.role, row.task_index))
        if known is None or known.number < row.number:
            tries[row.role, row.task_index] = task_from_row(row)
    return newest


def _snapshot_from_row(conn: Connection, row: Row[Any], tries: _Tries) -> JobSnapshot:
    job = _job_from_row(conn, row)
    return record_from_row(JobSnapshot, row, job=job, tasks=_list_current_tasks(job, tries))


def _list_current_tasks(job: Job, tries: _Tries) -> tuple[TaskAttempt, ...]:
    """Return tasks in the order of the job's roles. A task without a row has not started."""
    if not tries:
        return ()
    places = ((role.name, index) for role in job.roles for index in range(role.instances))
    return tuple(tries.get((role, i)) or TaskAttempt(role=role, index=i) for role, i in places)


def _job_from_row(conn: Connection, row: Row[Any]) -> Job:
    job = job_from_json(json.loads(row.spec_json))
    if row.secrets is None:
        return job
    opened = get_vault(conn).unseal(bytes(row.secrets), about=row.id)
    return replace(job, secrets=json.loads(opened))


_SELECT_VERSIONS = text("SELECT id, seq, version FROM jobs WHERE id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)
_UPDATE_JOB = text(
    "UPDATE jobs SET state = :state, message = :message, attempt = :attempt, started_at = :started_at,"
    " attempt_started_at = :attempt_started_at, finished_at = :finished_at, exit_code = :exit_code,"
    " exit_kind = :exit_kind, exit_cause = :exit_cause, exit_json = :exit_json, stop_json = :stop_json,"
    " outcome_json = :outcome_json,"
    " user_retries = :user_retries, platform_retries = :platform_retries, retry_at = :retry_at, version = :version"
    " WHERE seq = :seq AND version = :before_version"
)
_UPSERT_TASK = build_upsert(task_attempts, without=("logs_removed_at",))
_UPSERT_ATTEMPT = build_upsert(job_attempts)
# Expired at once: a job that never ends would keep the logs of all its tries.
_EXPIRE_ATTEMPT_LOGS = text(
    "UPDATE task_attempts SET job_finished_at = 0 WHERE job_seq = :job_seq AND attempt = :attempt"
    " AND logs_removed_at IS NULL"
)
_EXPIRE_TRY_LOGS = text(
    "UPDATE task_attempts SET job_finished_at = 0 WHERE job_seq = :job_seq AND attempt = :attempt AND role = :role"
    " AND task_index = :task_index AND number = :number AND logs_removed_at IS NULL"
)
_FINISH_TASKS = text("UPDATE task_attempts SET job_finished_at = :finished_at WHERE job_seq = :seq")


def save_job_changes(conn: Connection, changes: Sequence[JobChange]) -> None:
    """Save all changes or none: StaleVersion if a job is not at the expected version.

    The hot path: the number of statements does not depend on the number of jobs.
    """
    if not changes:
        return
    seqs = _check_versions(conn, changes)
    updates, tries, attempts, ends, happened = [], [], [], [], []
    for change in changes:
        after, seq = change.after, seqs[change.after.id]
        updates.append({**snapshot_to_row(after), "seq": seq, "before_version": change.before_version})
        end = to_optional_micros(after.finished_at) if after.state.final else None
        place = {"job_seq": seq, "attempt": after.attempt, "job_finished_at": end}
        tries += [{**task_to_row(task), **place} for task in change.tasks]
        attempts += [{**attempt_to_row(attempt), "job_seq": seq} for attempt in change.attempts]
        happened += [event_to_row(seq, event) for event in change.events]
        if end is not None:
            ends.append({"seq": seq, "finished_at": end})
    if conn.execute(_UPDATE_JOB, updates).rowcount != len(updates):
        raise StaleVersion(changes[0].after.id, changes[0].before_version, None)
    if tries:
        conn.execute(_UPSERT_TASK, tries)
    if attempts:
        conn.execute(_UPSERT_ATTEMPT, attempts)
    _expire_old_logs(conn, tries, attempts)
    if ends:
        conn.execute(_FINISH_TASKS, ends)
    insert_events(conn, happened)


def _expire_old_logs(conn: Connection, tries: Sequence[dict[str, Any]], attempts: Sequence[dict[str, Any]]) -> None:
    for rows, key, expire in ((attempts, "attempt", _EXPIRE_ATTEMPT_LOGS), (tries, "number", _EXPIRE_TRY_LOGS)):
        old = [{**each, key: each[key] - MAX_KEPT_TRIES} for each in rows if each[key] >= MAX_KEPT_TRIES]
        if old:
            conn.execute(expire, old)


def _check_versions(conn: Connection, changes: Sequence[JobChange]) -> dict[str, int]:
    ids = list({change.after.id for change in changes})
    rows = {row.id: row for row in conn.execute(_SELECT_VERSIONS, {"ids": ids})}
    versions = {id: row.version for id, row in rows.items()}
    for change in changes:
        id, found = change.after.id, versions.get(change.after.id)
        if found != change.before_version:
            raise StaleVersion(id, change.before_version, found)
        if change.after.version <= found:
            raise ValueError(msg("The version of a saved job must be higher than {found}", found=found))
        versions[id] = change.after.version
    return {id: row.seq for id, row in rows.items()}


_SELECT_SPEC = text(
    "SELECT j.id, s.spec_json, s.secrets FROM jobs j JOIN job_specs s ON s.job_seq = j.seq WHERE j.id = :id"
)


def load_job(conn: Connection, id: str) -> Job | None:
    """Load a job as submitted, with secrets, without its state."""
    row = conn.execute(_SELECT_SPEC, {"id": make_storable(id)}).one_or_none()
    return None if row is None else _job_from_row(conn, row)


# -- details

_SELECT_DETAIL = text(
    "SELECT j.*, s.spec_json, s.source FROM jobs j JOIN job_specs s ON s.job_seq = j.seq WHERE j.id = :id"
)


def load_job_detail(conn: Connection, id: str) -> JobDetail:
    """Load everything about a job that users can see; NotFound if it does not exist."""
    row = conn.execute(_SELECT_DETAIL, {"id": make_storable(id)}).one_or_none()
    if row is None:
        raise JobNotFound(msg("Job {id} not found", id=id))
    job = job_from_json(json.loads(row.spec_json))
    return record_from_row(JobDetail, row, summary=summary_from_row(row), job=job)
