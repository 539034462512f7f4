"""One job looked at closely, in pieces that stay small however many tasks, tries and events it has: for pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from holdfast.core.access import Actor, may_act
from holdfast.core.attempt import TaskAttempt
from holdfast.core.attempt_id import AttemptId
from holdfast.core.job import Job, Keep
from holdfast.core.plan import fresh_tasks
from holdfast.core.records import Event, JobAttempt, TaskRecord
from holdfast.core.states import JobState, TaskState
from holdfast.core.task_filter import TaskFilter
from holdfast.engines.base import Engine, Isolation
from holdfast.store.database import Store
from holdfast.store.jobs import events as event_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.jobs import task_pages

from ..control import Control
from ..inside.holds import held_until
from ..job_lookup import find_job

MAX_TASKS = 500  # of one page
MAX_EVENTS = 200
MAX_TRIES = 200  # of one task, the newest
MAX_ATTEMPTS = 100  # of the whole job, the newest
PIECE = 500  # tasks read together for a file of all

Counts = Mapping[str, Mapping[TaskState, int]]  # role -> state -> how many tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeup:
    """The job itself, without its tasks."""

    record: job_rows.JobDetail
    waiting: tuple[str, ...] | None  # why, every reason; None when it does not wait
    time_limit: timedelta | None
    isolation: Isolation
    may_act: bool
    held_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    items: tuple[TaskRecord, ...]
    total: int  # that fit the filter
    counts: Counts = field(default_factory=dict)  # of all, whether they fit or not
    addresses: Mapping[str, str] = field(default_factory=dict)  # node -> where it is reached


class JobCloseup:
    def __init__(self, store: Store, engine: Engine, control: Control) -> None:
        self._store = store
        self._engine = engine
        self._control = control

    async def get(self, actor: Actor, ref: str) -> Closeup:
        """NotFound when there is none that the actor may see."""
        found = await find_job(self._store, actor, ref)
        record = await self._store.read(job_rows.get, found.id)
        pending = record.summary.state is JobState.PENDING
        return Closeup(
            record=record,
            waiting=self._control.waiting(found.id) if pending else None,
            time_limit=self._control.time_limit(record.job),
            isolation=self._engine.health().isolation,
            may_act=may_act(actor, found.group, found.user),
            held_until=self.held_until(found.id),
        )

    def held_until(self, job_id: str) -> datetime | None:
        """When the last of its held tasks is let go; None where none is held."""
        return held_until(self._control, job_id)

    async def tasks(
        self,
        job: Closeup,
        attempt: int,
        filter: TaskFilter | None = None,
        *,
        offset: int = 0,
        limit: int = 100,
    ) -> TaskPage:
        """The newest try of each task of an attempt; in the order of the job's roles."""
        wanted, limit = filter or TaskFilter(), min(limit, MAX_TASKS)
        addresses = self.addresses()
        live = self._live_tasks(job.record, attempt)
        if live is not None:
            fitting = [task for task in live if wanted.fits(task)]
            items = tuple(_record(job.record.summary.id, attempt, task) for task in fitting[offset : offset + limit])
            return TaskPage(items=items, total=len(fitting), counts=_count(live), addresses=addresses)
        items, total, counts = await self._store.read(_stored_page, job.record, attempt, wanted, offset, limit)
        return TaskPage(items=items, total=total, counts=counts, addresses=addresses)

    async def all_tasks(self, job: Closeup, attempt: int) -> AsyncGenerator[tuple[TaskRecord, ...], None]:
        """The same, all of them, a piece at a time."""
        offset = 0
        while items := await self._piece(job.record, attempt, offset):
            yield items
            offset += len(items)

    async def _piece(self, record: job_rows.JobDetail, attempt: int, offset: int) -> tuple[TaskRecord, ...]:
        live = self._live_tasks(record, attempt)
        if live is None:
            return await self._store.read(_stored_tasks, record, attempt, TaskFilter(), offset, PIECE)
        return tuple(_record(record.summary.id, attempt, task) for task in live[offset : offset + PIECE])

    def addresses(self) -> dict[str, str]:
        """Node -> where it is reached."""
        return {node.name: node.address for node in self._engine.nodes()}

    def _live_tasks(self, record: job_rows.JobDetail, attempt: int) -> Sequence[TaskAttempt] | None:
        """From memory, of the attempt that goes on; with those that have not begun."""
        live = self._control.active(record.summary.id)
        if live is None or live.attempt != attempt:
            return None
        return live.tasks or fresh_tasks(live.job)

    async def tries(self, job: Closeup, task: str) -> tuple[TaskRecord, ...]:
        """Of one task, such as worker-0, in all attempts; the last one first."""
        return tuple(await self._store.read(task_pages.newest_tries, job.record.summary.id, task, MAX_TRIES))

    async def attempts(self, job: Closeup) -> tuple[JobAttempt, ...]:
        """Tries of the whole job that are over, the last one first."""
        return tuple(await self._store.read(task_pages.newest_attempts, job.record.summary.id, MAX_ATTEMPTS))

    async def events(self, job: Closeup, *, before: int | None = None, limit: int = 50) -> tuple[Event, ...]:
        """Newest first; those before `before`."""
        most = min(limit, MAX_EVENTS)
        return tuple(await self._store.read(event_rows.newest_events, job.record.summary.id, before, most))

    async def not_held(self, job: Closeup) -> str:
        """Why a task of it that failed is not held although the job asks for that; empty when there is none."""
        hold, summary = job.record.job.hold, job.record.summary
        if hold is None or hold.keep is Keep.NOTHING or summary.state not in (JobState.FAILED, JobState.HELD):
            return ""
        found = await self._store.read(event_rows.first_event, summary.id, "not-held", summary.attempt)
        return found.message if found else ""

    async def first_events(self, job: Closeup, limit: int = 50) -> tuple[Event, ...]:
        """Oldest first: how it was submitted, with the warnings of that."""
        return tuple(await self._store.read(event_rows.list_events, job.record.summary.id, 0, min(limit, MAX_EVENTS)))


def _stored_page(
    conn: Connection, record: job_rows.JobDetail, attempt: int, filter: TaskFilter, offset: int, limit: int
) -> tuple[tuple[TaskRecord, ...], int, Counts]:
    job_id = record.summary.id
    found = task_pages.task_counts(conn, job_id, attempt)
    counts = {role: found[role] for role in _roles(record.job) if role in found}
    if filter:
        total = task_pages.count_fitting(conn, job_id, attempt, filter)
    else:
        total = sum(sum(states.values()) for states in found.values())
    return _stored_tasks(conn, record, attempt, filter, offset, limit), total, counts


def _stored_tasks(
    conn: Connection, record: job_rows.JobDetail, attempt: int, filter: TaskFilter, offset: int, limit: int
) -> tuple[TaskRecord, ...]:
    id, roles = record.summary.id, _roles(record.job)
    return tuple(task_pages.task_page(conn, id, attempt, filter, roles=roles, offset=offset, limit=limit))


def _roles(job: Job) -> list[str]:
    return [role.name for role in job.roles]


def _record(job_id: str, attempt: int, task: TaskAttempt) -> TaskRecord:
    attempt_id = str(AttemptId(job_id, attempt, task.role, task.index, task.number))
    return TaskRecord(job_id=job_id, attempt=attempt, task=task, attempt_id=attempt_id)


def _count(tasks: Sequence[TaskAttempt]) -> Counts:
    found: dict[str, dict[TaskState, int]] = {}
    for task in tasks:
        states = found.setdefault(task.role, {})
        states[task.state] = states.get(task.state, 0) + 1
    return found
