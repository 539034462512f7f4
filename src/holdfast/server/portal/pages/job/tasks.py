"""Roles and tasks of a job in pages, its attempts, and all tries of one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.records import TaskRecord
from holdfast.core.states import TaskState
from holdfast.core.task_filter import TaskFilter
from holdfast.services.jobs.job_pages import JobHeader, StateCounts, TaskPage

from ...visit import Visit
from .inside import TaskAccess, build_task_access_by_attempt, needs_ssh_key
from .view import ExitDescription, Section, build_exit_kind_labels, build_job_address, describe_exit

TASKS_PER_PAGE = 100
MAX_FILTER_LENGTH = 200  # characters of a filter
MAX_PAGE_NUMBER = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    record: TaskRecord
    address: str  # of its node
    engine: str  # if there are several
    exit: ExitDescription | None
    tries: str  # address of all its tries
    log: str  # address of its log; add &stream= for one stream
    inside: TaskAccess | None = None  # None: the visitor cannot connect now

    @property
    def has_log(self) -> bool:
        return self.record.task.started_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleCounts:
    role: str
    total: int
    states: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    number: int
    started_at: datetime | None
    finished_at: datetime | None
    message: str
    address: str
    newest: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksView:
    attempt: int
    attempts: tuple[AttemptRow, ...]
    counts: tuple[RoleCounts, ...]
    rows: tuple[TaskRow, ...]
    total: int
    first: int  # the number of the first row, from 1
    filter: TaskFilter
    kinds: Mapping[ExitKind, str]
    nodes: tuple[str, ...]
    previous: str = ""
    next: str = ""
    task: str = ""  # show all tries of this task
    tries: tuple[TaskRow, ...] = field(default=())
    needs_key: bool = False  # the visitor could use SSH, but has no key
    states: tuple[str, ...] = tuple(state.value for state in TaskState)


def get_requested_attempt(visit: Visit, job: JobHeader) -> int:
    """Return the attempt of the URL, or the newest one."""
    newest = job.record.summary.attempt
    asked = visit.get_query_integer("attempt")
    return asked if asked is not None and asked <= newest else newest


async def _load_tasks(visit: Visit, job: JobHeader) -> TasksView:
    attempt, filter = get_requested_attempt(visit, job), _parse_task_filter(visit)
    number = visit.get_query_integer("page", MAX_PAGE_NUMBER) or 1
    job_pages = visit.services.job_pages
    page = await job_pages.list_tasks(job, attempt, filter, offset=(number - 1) * TASKS_PER_PAGE, limit=TASKS_PER_PAGE)
    task = visit.query.get("task", "")[:300]
    tries = await job_pages.list_tries(job, task) if task else ()
    asked = {**visit.query, "section": "tasks"}
    id = job.record.summary.id
    more = page.total > number * TASKS_PER_PAGE
    rows = build_task_rows(visit, job, page)
    return TasksView(
        attempt=attempt,
        attempts=await _list_attempt_rows(visit, job, attempt),
        counts=build_role_counts(page.counts),
        rows=rows,
        total=page.total,
        first=(number - 1) * TASKS_PER_PAGE + 1,
        filter=filter,
        kinds=build_exit_kind_labels(visit),
        nodes=tuple(page.addresses),
        previous=build_job_address(id, {**asked, "page": number - 1}) if number > 1 else "",
        next=build_job_address(id, {**asked, "page": number + 1}) if more else "",
        task=task,
        tries=_build_rows(visit, tries, page.addresses),
        needs_key=await should_offer_ssh_key(visit, rows),
    )


def _parse_task_filter(visit: Visit) -> TaskFilter:
    """Parse the filter; invalid values are ignored."""
    parameters = {name: value.strip()[:MAX_FILTER_LENGTH] for name, value in visit.query.items()}
    state, kind = parameters.get("state", ""), parameters.get("kind", "")
    return TaskFilter(
        role=parameters.get("role") or None,
        state=TaskState(state) if state in set(TaskState) else None,
        kind=ExitKind(kind) if kind in set(ExitKind) else None,
        code=visit.get_query_integer("code"),
        node=parameters.get("node") or None,
        text=parameters.get("text", ""),
    )


def build_task_rows(visit: Visit, job: JobHeader, page: TaskPage) -> tuple[TaskRow, ...]:
    access = build_task_access_by_attempt(visit, job.record.summary, {record.attempt_id for record in page.items})
    return _build_rows(visit, page.items, page.addresses, access)


async def should_offer_ssh_key(visit: Visit, rows: Sequence[TaskRow]) -> bool:
    """Whether the visitor could use SSH for one of these tasks, but has no key."""
    return any(row.inside for row in rows) and await needs_ssh_key(visit)


def _build_rows(
    visit: Visit,
    records: Sequence[TaskRecord],
    addresses: Mapping[str, str],
    open_ones: Mapping[str, TaskAccess] | None = None,
) -> tuple[TaskRow, ...]:
    """Build rows. Most tasks have the same few exits, so each exit is described once."""
    descriptions = {exit: describe_exit(visit, exit) for exit in {_get_exit(record) for record in records}}
    access = open_ones or {}
    engine = visit.services.installation.engine
    shows_engine = len(engine.names) > 1
    return tuple(
        _build_task_row(
            each,
            descriptions[_get_exit(each)],
            addresses,
            access.get(each.attempt_id),
            each.task.engine if shows_engine or each.task.engine != engine.name else "",
        )
        for each in records
    )


def _get_exit(record: TaskRecord) -> Exit | None:
    """Return the exit of a task; of a held task, the exit of its command."""
    task = record.task
    return task.exit or (task.held.exit if task.held is not None else None)


def _build_task_row(
    record: TaskRecord,
    exit: ExitDescription | None,
    addresses: Mapping[str, str],
    inside: TaskAccess | None,
    engine: str,
) -> TaskRow:
    task, job_path = record.task, f"/jobs/{record.job_id}"
    which = f"task={quote(task.task, safe='')}&attempt={record.attempt}"
    return TaskRow(
        record=record,
        address=addresses.get(task.machine or "", ""),
        engine=engine,
        exit=exit,
        tries=f"{job_path}?section=tasks&{which}#tries",
        log=f"{job_path}/log?{which}&try={task.number}",
        inside=inside,
    )


def build_role_counts(counts: StateCounts) -> tuple[RoleCounts, ...]:
    """Build counts by role, with states in the order of a task's life."""
    return tuple(
        RoleCounts(
            role=role,
            total=sum(states.values()),
            states=tuple((state.value, states[state]) for state in TaskState if states.get(state)),
        )
        for role, states in counts.items()
    )


async def _list_attempt_rows(visit: Visit, job: JobHeader, chosen: int) -> tuple[AttemptRow, ...]:
    """Return attempts, newest first; empty if there was only one."""
    summary = job.record.summary
    if not summary.attempt and summary.retry_at is None:
        return ()
    past = {each.number: each for each in await visit.services.job_pages.list_attempts(job)}
    rows = []
    if summary.attempt not in past:
        rows.append(_build_newest_attempt_row(visit, job, chosen))
    for number, each in past.items():
        rows.append(
            AttemptRow(
                number=number,
                started_at=each.started_at,
                finished_at=each.finished_at,
                message=visit.translate_message(each.outcome.message),
                address=build_job_address(summary.id, section="tasks", attempt=number),
                chosen=number == chosen,
            )
        )
    return tuple(rows)


def _build_newest_attempt_row(visit: Visit, job: JobHeader, chosen: int) -> AttemptRow:
    summary = job.record.summary
    return AttemptRow(
        number=summary.attempt,
        started_at=job.record.attempt_started_at,
        finished_at=summary.finished_at,
        message=visit.translate_message(summary.message),
        address=build_job_address(summary.id, section="tasks"),
        newest=True,
        chosen=summary.attempt == chosen,
    )


SECTION = Section(
    key="tasks", title=lambda visit: visit.translate_text("Tasks"), template="job/_tasks.html", load=_load_tasks
)
