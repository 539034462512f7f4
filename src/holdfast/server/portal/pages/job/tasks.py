"""Roles and tasks of a job: how each does, page by page; attempts to choose from; all tries of one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.records import TaskRecord
from holdfast.core.states import TaskState
from holdfast.core.task_filter import TaskFilter
from holdfast.services.jobs.detail import Closeup, Counts, TaskPage

from ...visit import Visit
from .inside import Inside, insides, needs_key
from .view import ExitWords, Section, exit_words, job_address, kind_words

PAGE = 100
MAX_LENGTH = 200  # characters of a filter
MAX_PAGES = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    record: TaskRecord
    address: str  # of its machine
    exit: ExitWords | None
    tries: str  # where all tries of it are
    log: str  # where its log is; of one stream with &stream= behind it
    inside: Inside | None = None  # how to get in; None: not now, or not for the visitor

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
class TasksData:
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
    task: str = ""  # all tries of this one are shown
    tries: tuple[TaskRow, ...] = field(default=())
    needs_key: bool = False  # the visitor could come by SSH, and has no key
    states: tuple[str, ...] = tuple(state.value for state in TaskState)


def attempt_asked(visit: Visit, job: Closeup) -> int:
    """The newest, unless the address names an earlier one."""
    newest = job.record.summary.attempt
    asked = visit.number("attempt")
    return asked if asked is not None and asked <= newest else newest


async def _load(visit: Visit, job: Closeup) -> TasksData:
    attempt, filter = attempt_asked(visit, job), _filter(visit)
    number = visit.number("page", MAX_PAGES) or 1
    closeup = visit.services.closeup
    page = await closeup.tasks(job, attempt, filter, offset=(number - 1) * PAGE, limit=PAGE)
    task = visit.request.query_params.get("task", "")[:300]
    tries = await closeup.tries(job, task) if task else ()
    asked = {**visit.request.query_params, "section": "tasks"}
    id = job.record.summary.id
    more = page.total > number * PAGE
    rows = task_rows(visit, job, page)
    return TasksData(
        attempt=attempt,
        attempts=await _attempts(visit, job, attempt),
        counts=role_counts(page.counts),
        rows=rows,
        total=page.total,
        first=(number - 1) * PAGE + 1,
        filter=filter,
        kinds=kind_words(visit),
        nodes=tuple(page.addresses),
        previous=job_address(id, {**asked, "page": number - 1}) if number > 1 else "",
        next=job_address(id, {**asked, "page": number + 1}) if more else "",
        task=task,
        tries=_rows(visit, tries, page.addresses),
        needs_key=await wants_key(visit, rows),
    )


def _filter(visit: Visit) -> TaskFilter:
    """What is no such thing is left aside."""
    said = {name: value.strip()[:MAX_LENGTH] for name, value in visit.request.query_params.items()}
    state, kind = said.get("state", ""), said.get("kind", "")
    return TaskFilter(
        role=said.get("role") or None,
        state=TaskState(state) if state in set(TaskState) else None,
        kind=ExitKind(kind) if kind in set(ExitKind) else None,
        code=visit.number("code"),
        node=said.get("node") or None,
        text=said.get("text", ""),
    )


def task_rows(visit: Visit, job: Closeup, page: TaskPage) -> tuple[TaskRow, ...]:
    ways = insides(visit, job.record.summary, {record.attempt_id for record in page.items})
    return _rows(visit, page.items, page.addresses, ways)


async def wants_key(visit: Visit, rows: Sequence[TaskRow]) -> bool:
    """The visitor could come into one of these by SSH, and has no key to do so."""
    return any(row.inside for row in rows) and await needs_key(visit)


def _rows(
    visit: Visit,
    records: Sequence[TaskRecord],
    addresses: Mapping[str, str],
    open_ones: Mapping[str, Inside] | None = None,
) -> tuple[TaskRow, ...]:
    """Most tasks of a job end in the same few ways: each is put into words once."""
    words = {exit: exit_words(visit, exit) for exit in {_exit(record) for record in records}}
    ways = open_ones or {}
    return tuple(_row(each, words[_exit(each)], addresses, ways.get(each.attempt_id)) for each in records)


def _exit(record: TaskRecord) -> Exit | None:
    """How it ended, or how its command did where the rest of it is held."""
    task = record.task
    return task.exit or (task.held.exit if task.held is not None else None)


def _row(record: TaskRecord, exit: ExitWords | None, addresses: Mapping[str, str], inside: Inside | None) -> TaskRow:
    task, place = record.task, f"/jobs/{record.job_id}"
    which = f"task={quote(task.task, safe='')}&attempt={record.attempt}"
    return TaskRow(
        record=record,
        address=addresses.get(task.node or "", ""),
        exit=exit,
        tries=f"{place}?section=tasks&{which}#tries",
        log=f"{place}/log?{which}&try={task.number}",
        inside=inside,
    )


def role_counts(counts: Counts) -> tuple[RoleCounts, ...]:
    """States in the order of a task's life."""
    return tuple(
        RoleCounts(
            role=role,
            total=sum(states.values()),
            states=tuple((state.value, states[state]) for state in TaskState if states.get(state)),
        )
        for role, states in counts.items()
    )


async def _attempts(visit: Visit, job: Closeup, chosen: int) -> tuple[AttemptRow, ...]:
    """Newest first; empty when there was only one."""
    summary = job.record.summary
    if not summary.attempt and summary.retry_at is None:
        return ()
    past = {each.number: each for each in await visit.services.closeup.attempts(job)}
    rows = []
    if summary.attempt not in past:
        rows.append(_newest(visit, job, chosen))
    for number, each in past.items():
        rows.append(
            AttemptRow(
                number=number,
                started_at=each.started_at,
                finished_at=each.finished_at,
                message=visit.tell(each.outcome.message),
                address=job_address(summary.id, section="tasks", attempt=number),
                chosen=number == chosen,
            )
        )
    return tuple(rows)


def _newest(visit: Visit, job: Closeup, chosen: int) -> AttemptRow:
    summary = job.record.summary
    return AttemptRow(
        number=summary.attempt,
        started_at=job.record.attempt_started_at,
        finished_at=summary.finished_at,
        message=visit.tell(summary.message),
        address=job_address(summary.id, section="tasks"),
        newest=True,
        chosen=summary.attempt == chosen,
    )


SECTION = Section(key="tasks", title=lambda visit: visit.say("Tasks"), template="job/_tasks.html", load=_load)
