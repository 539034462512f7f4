"""Jobs: submitted, loaded and saved by whoever drives them. Lists are in `listing` and `finding`, tries in `history`.

What is submitted is written once; what changes is one narrow row. Functions that write may be run again after a
rollback (see `Store.write`).
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
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.exits.exit import Exit
from holdfast.core.job import Job
from holdfast.core.messages import msg, unpack
from holdfast.core.records import JobAttempt, JobSummary, NewEvent
from holdfast.core.states import FINAL, JobState

from ..connections import vault_of
from ..errors import NameInUse, StaleVersion
from ..rows import (
    HOUR,
    SUMMARY_COLUMNS,
    attempt_values,
    event_values,
    exit_from_json,
    instant,
    maybe_instant,
    maybe_micros,
    micros,
    outcome_from_json,
    progress_values,
    request_values,
    searchable,
    stop_from_json,
    storable,
    summary_of,
    task_of,
    task_values,
    to_json,
)
from .events import insert_events
from .history import known, logs_due, mark_logs_removed, past_attempts, task, tasks, tries
from .listing import count_by_state, list_page
from .lookup import find, name_taken, newest_named
from .numbered_pages import numbered_page
from .tags import add_tag, insert_tags, remove_tag

__all__ = [
    "Inserted",
    "JobDetail",
    "NewJob",
    "Saved",
    "add_tag",
    "count_by_state",
    "find",
    "get",
    "insert_job",
    "insert_jobs",
    "known",
    "list_page",
    "load_active",
    "load_snapshot",
    "logs_due",
    "mark_logs_removed",
    "name_taken",
    "newest_named",
    "numbered_page",
    "past_attempts",
    "remove_tag",
    "save",
    "task",
    "tasks",
    "tries",
]

KEPT_TRIES = 100  # of a job that is tried again for ever, logs of so many are kept

ACTIVE = tuple(state.value for state in JobState if state not in FINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    job: Job
    user: str
    source: str  # as submitted, secrets masked
    submitted_at: datetime
    event: NewEvent
    warnings: tuple[NewEvent, ...] = ()  # what its user was told
    idempotency_key: str | None = None
    rerun_of: str | None = None
    unique_name: bool = False  # only if this user never had a job of this name
    schedule: str | None = None  # id of the schedule that was due


@dataclass(frozen=True, slots=True)
class Inserted:
    summary: JobSummary
    created: bool  # False: this user had sent the same key before, and this is that job


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One step in a job's life, saved if the job is still at `before_version`. `after.version` must be above it."""

    before_version: int
    after: JobSnapshot
    tasks: tuple[TaskAttempt, ...] = ()  # those of `after.attempt` that changed
    events: tuple[NewEvent, ...] = ()
    attempts: tuple[JobAttempt, ...] = ()  # of the whole job, that are over


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

_BY_KEY = text(
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
_COUNT_HOUR = text(
    "INSERT INTO job_hours (hour, first_seq, last_seq) VALUES (:hour, :seq, :seq)"
    " ON CONFLICT (hour) DO UPDATE SET last_seq = excluded.last_seq"
)
_ASKS_FOR_NOTICES = text("INSERT INTO notice_jobs (job_seq) VALUES (:seq)")
_INDEX_TEXT = text("INSERT INTO job_search (rowid, text) VALUES (:seq, :text)")


def insert_job(conn: Connection, *, new: NewJob) -> Inserted:
    """A new job under a new id; or the earlier one, when this user sent the same idempotency key before.

    NameInUse when the name is to be unique and is not.
    """
    if new.idempotency_key is not None:
        earlier = conn.execute(_BY_KEY, {"user": new.user, "key": new.idempotency_key}).one_or_none()
        if earlier is not None:
            return _same_job(earlier, new)
    if new.unique_name and name_taken(conn, new.user, new.job.name):
        raise NameInUse(new.user, new.job.name)
    return insert_jobs(conn, [new])[0]


def insert_jobs(conn: Connection, news: Sequence[NewJob]) -> list[Inserted]:
    """New jobs, together. Keys and names have been looked at."""
    rows = [(new, *_insert_row(conn, new)) for new in news]
    conn.execute(_INSERT_SPEC, _few([_spec_values(conn, seq, values["id"], new) for new, seq, values in rows]))
    conn.execute(_COUNT_HOUR, _few([{"hour": values["submitted_at"] // HOUR, "seq": seq} for _, seq, values in rows]))
    if conn.dialect.name == "sqlite":
        conn.execute(_INDEX_TEXT, _few([{"seq": seq, "text": values["search"]} for _, seq, values in rows]))
    for new, seq, _ in rows:
        if new.job.tags:
            insert_tags(conn, seq, new.job.tags)
        if new.job.notify:
            conn.execute(_ASKS_FOR_NOTICES, {"seq": seq})
    insert_events(conn, [event_values(seq, event) for new, seq, _ in rows for event in (new.event, *new.warnings)])
    return [Inserted(_new_summary(new, values["id"], seq, values), created=True) for new, seq, values in rows]


def _insert_row(conn: Connection, new: NewJob) -> tuple[int, dict[str, Any]]:
    """Its place in the order of submission, and its values with its new id."""
    values = {
        **request_values(new.job),
        "user_name": new.user,
        "state": JobState.PENDING.value,
        "submitted_at": micros(new.submitted_at),
        "rerun_of": new.rerun_of,
        "idempotency_key": new.idempotency_key,
        "schedule_id": new.schedule,
    }
    seq = None
    while seq is None:  # until the id is one that nobody has
        values["id"] = job_id(new.submitted_at)
        values["search"] = searchable(new.job.name, values["id"])
        seq = conn.scalar(_INSERT_JOB, values)
    return seq, values


def _few(values: list[dict[str, Any]]) -> Any:
    """One alone is quicker not as a list."""
    return values[0] if len(values) == 1 else values


def job_id(at: datetime) -> str:
    """Tells when it was submitted; cannot be guessed from another."""
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(6))
    return f"job-{at.astimezone(UTC):%Y%m%d%H%M}-{letters}"


_ALPHABET = string.ascii_lowercase + string.digits


def _same_job(row: Row[Any], new: NewJob) -> Inserted:
    if row.source != new.source:
        raise Conflict(
            msg("This idempotency key was used before, for another job ({id})", id=row.id),
            field="idempotency_key",
            hint=msg("Use a new key for each job, and the same key only to send the same job again."),
        )
    return Inserted(summary_of(row), created=False)


def _spec_values(conn: Connection, seq: int, id: str, new: NewJob) -> dict[str, Any]:
    sealed = None
    if new.job.secrets:
        sealed = vault_of(conn).seal(to_json(dict(new.job.secrets)).encode(), about=id)
    spec = to_json(job_to_json(new.job, secrets=False))
    return {"job_seq": seq, "spec_json": spec, "source": new.source, "secrets": sealed}


def _new_summary(new: NewJob, id: str, seq: int, values: Mapping[str, Any]) -> JobSummary:
    return JobSummary(
        id=id,
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
        task_count=values["task_count"],
        cpu=values["cpu"],
        memory=values["memory"],
        gpu=values["gpu"],
        priority=new.job.priority,
        dialect=new.job.dialect,
        tags=new.job.tags,
        rerun_of=new.rerun_of,
        role_count=values["role_count"],
        schedule=new.schedule,
    )


# -- driving: load and save

_SNAPSHOT = (
    "SELECT j.seq, j.id, j.user_name, j.submitted_at, j.state, j.message, j.attempt, j.started_at,"
    " j.attempt_started_at, j.finished_at, j.exit_json, j.stop_json, j.outcome_json, j.user_retries,"
    " j.platform_retries, j.retry_at, j.version, s.spec_json, s.secrets"
    " FROM jobs j JOIN job_specs s ON s.job_seq = j.seq"
)
_ACTIVE_JOBS = text(f"{_SNAPSHOT} WHERE j.state IN :states ORDER BY j.seq").bindparams(
    bindparam("states", ACTIVE, expanding=True)
)
_ONE_JOB = text(f"{_SNAPSHOT} WHERE j.id = :id")
_CURRENT_TASKS = "SELECT t.* FROM jobs j JOIN task_attempts t ON t.job_seq = j.seq AND t.attempt = j.attempt"
_ACTIVE_TASKS = text(f"{_CURRENT_TASKS} WHERE j.state IN :states").bindparams(
    bindparam("states", ACTIVE, expanding=True)
)
_ONE_JOBS_TASKS = text(f"{_CURRENT_TASKS} WHERE j.id = :id")


def load_active(conn: Connection) -> list[JobSnapshot]:
    """Every job that is not final, oldest first, secrets included."""
    newest = _newest_tries(conn.execute(_ACTIVE_TASKS))
    return [_snapshot(conn, row, newest.get(row.seq, {})) for row in conn.execute(_ACTIVE_JOBS)]


def load_snapshot(conn: Connection, id: str) -> JobSnapshot:
    """One job, secrets included; NotFound when there is none."""
    row = conn.execute(_ONE_JOB, {"id": storable(id)}).one_or_none()
    if row is None:
        raise NotFound(msg("There is no job {id}", id=id))
    newest = _newest_tries(conn.execute(_ONE_JOBS_TASKS, {"id": id}))
    return _snapshot(conn, row, newest.get(row.seq, {}))


_Tries = dict[tuple[str, int], TaskAttempt]


def _newest_tries(rows: Iterable[Row[Any]]) -> dict[int, _Tries]:
    """By job, then by role and index."""
    newest: dict[int, _Tries] = {}
    for row in rows:
        tries = newest.setdefault(row.job_seq, {})
        known = tries.get((row.role, row.task_index))
        if known is None or known.number < row.number:
            tries[row.role, row.task_index] = task_of(row)
    return newest


def _snapshot(conn: Connection, row: Row[Any], tries: _Tries) -> JobSnapshot:
    job = _job_with_secrets(conn, row)
    return JobSnapshot(
        id=row.id,
        job=job,
        user=row.user_name,
        submitted_at=instant(row.submitted_at),
        state=JobState(row.state),
        message=unpack(row.message),
        attempt=row.attempt,
        tasks=_all_tasks(job, tries),
        stop=stop_from_json(row.stop_json),
        outcome=outcome_from_json(row.outcome_json),
        exit=exit_from_json(row.exit_json),
        user_retries=row.user_retries,
        platform_retries=row.platform_retries,
        retry_at=maybe_instant(row.retry_at),
        started_at=maybe_instant(row.started_at),
        attempt_started_at=maybe_instant(row.attempt_started_at),
        finished_at=maybe_instant(row.finished_at),
        version=row.version,
    )


def _all_tasks(job: Job, tries: _Tries) -> tuple[TaskAttempt, ...]:
    """In the order of the job's roles. A task that was never saved has not begun."""
    if not tries:
        return ()
    places = ((role.name, index) for role in job.roles for index in range(role.instances))
    return tuple(tries.get((role, i)) or TaskAttempt(role=role, index=i) for role, i in places)


def _job_with_secrets(conn: Connection, row: Row[Any]) -> Job:
    job = job_from_json(json.loads(row.spec_json))
    if row.secrets is None:
        return job
    opened = vault_of(conn).unseal(bytes(row.secrets), about=row.id)
    return replace(job, secrets=json.loads(opened))


_VERSIONS = text("SELECT id, seq, version FROM jobs WHERE id IN :ids").bindparams(bindparam("ids", expanding=True))
_UPDATE_JOB = text(
    "UPDATE jobs SET state = :state, message = :message, attempt = :attempt, started_at = :started_at,"
    " attempt_started_at = :attempt_started_at, finished_at = :finished_at, exit_code = :exit_code,"
    " exit_kind = :exit_kind, exit_cause = :exit_cause, exit_json = :exit_json, stop_json = :stop_json,"
    " outcome_json = :outcome_json,"
    " user_retries = :user_retries, platform_retries = :platform_retries, retry_at = :retry_at, version = :version"
    " WHERE seq = :seq AND version = :before_version"
)
_PUT_TASK = text(
    "INSERT INTO task_attempts (job_seq, attempt, role, task_index, number, state, node, gpus_json, ports_json,"
    " placed_at, started_at, finished_at, exit_json, stop_json, user_retries, platform_retries, retry_at,"
    " job_finished_at, hold_json)"
    " VALUES (:job_seq, :attempt, :role, :task_index, :number, :state, :node, :gpus_json, :ports_json,"
    " :placed_at, :started_at, :finished_at, :exit_json, :stop_json, :user_retries, :platform_retries, :retry_at,"
    " :job_finished_at, :hold_json)"
    " ON CONFLICT (job_seq, attempt, role, task_index, number) DO UPDATE SET state = excluded.state,"
    " node = excluded.node, gpus_json = excluded.gpus_json, ports_json = excluded.ports_json,"
    " placed_at = excluded.placed_at, started_at = excluded.started_at, finished_at = excluded.finished_at,"
    " exit_json = excluded.exit_json, stop_json = excluded.stop_json, user_retries = excluded.user_retries,"
    " platform_retries = excluded.platform_retries, retry_at = excluded.retry_at,"
    " job_finished_at = excluded.job_finished_at, hold_json = excluded.hold_json"
)
_PUT_ATTEMPT = text(
    "INSERT INTO job_attempts (job_seq, attempt, started_at, finished_at, outcome_json, counted)"
    " VALUES (:job_seq, :attempt, :started_at, :finished_at, :outcome_json, :counted)"
    " ON CONFLICT (job_seq, attempt) DO UPDATE SET started_at = excluded.started_at,"
    " finished_at = excluded.finished_at, outcome_json = excluded.outcome_json, counted = excluded.counted"
)
# Due at once: a job that never ends would keep the logs of all its tries.
_OUTDATE_ATTEMPT = text(
    "UPDATE task_attempts SET job_finished_at = 0 WHERE job_seq = :job_seq AND attempt = :attempt"
    " AND logs_removed_at IS NULL"
)
_OUTDATE_TRY = text(
    "UPDATE task_attempts SET job_finished_at = 0 WHERE job_seq = :job_seq AND attempt = :attempt AND role = :role"
    " AND task_index = :task_index AND number = :number AND logs_removed_at IS NULL"
)
_END_TASKS = text("UPDATE task_attempts SET job_finished_at = :finished_at WHERE job_seq = :seq")


def save(conn: Connection, changes: Sequence[Saved]) -> None:
    """All of them, or none: StaleVersion when a job is not where its change begins.

    The hot path: a handful of statements, however many jobs.
    """
    if not changes:
        return
    seqs = _checked_seqs(conn, changes)
    updates, tries, attempts, ends, happened = [], [], [], [], []
    for change in changes:
        after, seq = change.after, seqs[change.after.id]
        updates.append({**progress_values(after), "seq": seq, "before_version": change.before_version})
        end = maybe_micros(after.finished_at) if after.state.final else None
        place = {"job_seq": seq, "attempt": after.attempt, "job_finished_at": end}
        tries += [{**task_values(task), **place} for task in change.tasks]
        attempts += [{**attempt_values(attempt), "job_seq": seq} for attempt in change.attempts]
        happened += [event_values(seq, event) for event in change.events]
        if end is not None:
            ends.append({"seq": seq, "finished_at": end})
    if conn.execute(_UPDATE_JOB, updates).rowcount != len(updates):
        raise StaleVersion(changes[0].after.id, changes[0].before_version, None)
    if tries:
        conn.execute(_PUT_TASK, tries)
    if attempts:
        conn.execute(_PUT_ATTEMPT, attempts)
    _outdate(conn, tries, attempts)
    if ends:
        conn.execute(_END_TASKS, ends)
    insert_events(conn, happened)


def _outdate(conn: Connection, tries: Sequence[dict[str, Any]], attempts: Sequence[dict[str, Any]]) -> None:
    """Let go of logs so many tries ago."""
    old = [{**each, "attempt": each["attempt"] - KEPT_TRIES} for each in attempts if each["attempt"] >= KEPT_TRIES]
    if old:
        conn.execute(_OUTDATE_ATTEMPT, old)
    old = [{**each, "number": each["number"] - KEPT_TRIES} for each in tries if each["number"] >= KEPT_TRIES]
    if old:
        conn.execute(_OUTDATE_TRY, old)


def _checked_seqs(conn: Connection, changes: Sequence[Saved]) -> dict[str, int]:
    ids = list({change.after.id for change in changes})
    rows = {row.id: row for row in conn.execute(_VERSIONS, {"ids": ids})}
    versions = {id: row.version for id, row in rows.items()}
    for change in changes:
        id, found = change.after.id, versions.get(change.after.id)
        if found != change.before_version:
            raise StaleVersion(id, change.before_version, found)
        if change.after.version <= found:
            raise ValueError(msg("A saved job needs a higher version than {found}", found=found))
        versions[id] = change.after.version
    return {id: row.seq for id, row in rows.items()}


_SPEC = text("SELECT j.id, s.spec_json, s.secrets FROM jobs j JOIN job_specs s ON s.job_seq = j.seq WHERE j.id = :id")


def load_job(conn: Connection, id: str) -> Job | None:
    """What was submitted, secrets included, and nothing that became of it."""
    row = conn.execute(_SPEC, {"id": storable(id)}).one_or_none()
    return None if row is None else _job_with_secrets(conn, row)


# -- showing one

_DETAIL = text("SELECT j.*, s.spec_json, s.source FROM jobs j JOIN job_specs s ON s.job_seq = j.seq WHERE j.id = :id")


def get(conn: Connection, id: str) -> JobDetail:
    """Everything about a job that people may see; NotFound when there is none."""
    row = conn.execute(_DETAIL, {"id": storable(id)}).one_or_none()
    if row is None:
        raise NotFound(msg("There is no job {id}", id=id))
    return JobDetail(
        summary=summary_of(row),
        job=job_from_json(json.loads(row.spec_json)),
        source=row.source,
        stop=stop_from_json(row.stop_json),
        outcome=outcome_from_json(row.outcome_json),
        exit=exit_from_json(row.exit_json),
        user_retries=row.user_retries,
        platform_retries=row.platform_retries,
        retry_at=maybe_instant(row.retry_at),
        attempt_started_at=maybe_instant(row.attempt_started_at),
        version=row.version,
    )
