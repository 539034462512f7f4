"""One job in pages of bounded size, however many tasks, tries and events it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from holdfast.core.access import Actor, can_act_on
from holdfast.core.attempt import TaskAttempt
from holdfast.core.job import HoldScope, Job
from holdfast.core.planning.task_requests import build_task_attempts
from holdfast.core.records import Event, JobAttempt, TaskRecord
from holdfast.core.states import JobState, TaskState
from holdfast.core.task_filter import TaskFilter
from holdfast.engines.base import Isolation
from holdfast.engines.engine_set import EngineSet
from holdfast.store.database import Store
from holdfast.store.jobs import events as event_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.jobs import task_pages

from ..control import Control
from ..inside.holds import get_held_until
from ..job_lookup import find_job
from .current_tasks import build_task_record

MAX_TASKS = 500  # of one page
MAX_EVENTS = 200
MAX_TRIES = 200  # of one task, the newest
MAX_ATTEMPTS = 100  # of the whole job, the newest
BATCH_SIZE = 500  # tasks per batch of a full export

StateCounts = Mapping[str, Mapping[TaskState, int]]  # role -> state -> how many tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeader:
    """A job without its tasks."""

    record: job_rows.JobDetail
    waiting: tuple[str, ...] | None  # every reason; None if not pending
    time_limit: timedelta | None
    isolation: Isolation
    can_act: bool
    held_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    items: tuple[TaskRecord, ...]
    total: int  # that match the filter
    counts: StateCounts = field(default_factory=dict)  # of all tasks, not only matches
    addresses: Mapping[str, str] = field(default_factory=dict)  # node -> address


class JobPages:
    def __init__(self, store: Store, engine: EngineSet, control: Control) -> None:
        self._store = store
        self._engine = engine
        self._control = control

    async def get(self, actor: Actor, ref: str) -> JobHeader:
        """Return the job. NotFound if the actor cannot read it."""
        found = await find_job(self._store, actor, ref)
        record = await self._store.read(job_rows.load_job_detail, found.id)
        pending = record.summary.state is JobState.PENDING
        return JobHeader(
            record=record,
            waiting=self._control.list_wait_reasons(found.id) if pending else None,
            time_limit=self._control.get_time_limit(record.job),
            isolation=self._engine.find_health(self._control.choose_engine(record.job)).isolation,
            can_act=can_act_on(actor, found.group, found.user),
            held_until=self.get_hold_end(found.id),
        )

    def get_hold_end(self, job_id: str) -> datetime | None:
        """Return when the last hold expires; None if there is no hold."""
        return get_held_until(self._control, job_id)

    async def list_tasks(
        self, job: JobHeader, attempt: int, filter: TaskFilter | None = None, *, offset: int = 0, limit: int = 100
    ) -> TaskPage:
        """Return the newest try of each task of an attempt, in the order of the job's roles."""
        filter, limit = filter or TaskFilter(), min(limit, MAX_TASKS)
        addresses = self.get_node_addresses()
        live = self._list_live_tasks(job.record, attempt)
        if live is not None:
            matching = [task for task in live if filter.matches(task)]
            items = tuple(
                build_task_record(job.record.summary.id, attempt, task) for task in matching[offset : offset + limit]
            )
            return TaskPage(items=items, total=len(matching), counts=_count_states(live), addresses=addresses)
        items, total, counts = await self._store.read(_load_task_page, job.record, attempt, filter, offset, limit)
        return TaskPage(items=items, total=total, counts=counts, addresses=addresses)

    async def iter_task_batches(self, job: JobHeader, attempt: int) -> AsyncGenerator[tuple[TaskRecord, ...], None]:
        offset = 0
        while items := await self._load_batch(job.record, attempt, offset):
            yield items
            offset += len(items)

    async def _load_batch(self, record: job_rows.JobDetail, attempt: int, offset: int) -> tuple[TaskRecord, ...]:
        live = self._list_live_tasks(record, attempt)
        if live is None:
            return await self._store.read(_load_tasks, record, attempt, TaskFilter(), offset, BATCH_SIZE)
        return tuple(build_task_record(record.summary.id, attempt, task) for task in live[offset : offset + BATCH_SIZE])

    def get_node_addresses(self) -> dict[str, str]:
        return {node.name: node.address for node in self._engine.list_nodes()}

    def _list_live_tasks(self, record: job_rows.JobDetail, attempt: int) -> Sequence[TaskAttempt] | None:
        """Return the tasks of the current attempt from memory, including those not yet started."""
        live = self._control.get_active_job(record.summary.id)
        if live is None or live.attempt != attempt:
            return None
        return live.tasks or build_task_attempts(live.job)

    async def list_tries(self, job: JobHeader, task: str) -> tuple[TaskRecord, ...]:
        """Return the tries of one task, such as worker-0, in all attempts, newest first."""
        return tuple(await self._store.read(task_pages.list_newest_tries, job.record.summary.id, task, MAX_TRIES))

    async def list_attempts(self, job: JobHeader) -> tuple[JobAttempt, ...]:
        """Return the ended attempts, newest first."""
        return tuple(await self._store.read(task_pages.list_newest_attempts, job.record.summary.id, MAX_ATTEMPTS))

    async def list_events(self, job: JobHeader, *, before: int | None = None, limit: int = 50) -> tuple[Event, ...]:
        """Return events before `before`, newest first."""
        most = min(limit, MAX_EVENTS)
        return tuple(await self._store.read(event_rows.list_newest_events, job.record.summary.id, before, most))

    async def explain_missing_hold(self, job: JobHeader) -> str:
        """Return why a failed task is not on hold although the job sets `hold`; empty if there is none."""
        hold, summary = job.record.job.hold, job.record.summary
        if hold is None or hold.keep is HoldScope.NOTHING or summary.state not in (JobState.FAILED, JobState.HELD):
            return ""
        found = await self._store.read(event_rows.find_first_event, summary.id, "not-held", summary.attempt)
        return found.message if found else ""

    async def list_first_events(self, job: JobHeader, limit: int = 50) -> tuple[Event, ...]:
        """Return the first events, oldest first: the submission and its warnings."""
        return tuple(await self._store.read(event_rows.list_events, job.record.summary.id, 0, min(limit, MAX_EVENTS)))


def _load_task_page(
    conn: Connection, record: job_rows.JobDetail, attempt: int, filter: TaskFilter, offset: int, limit: int
) -> tuple[tuple[TaskRecord, ...], int, StateCounts]:
    job_id = record.summary.id
    found = task_pages.count_tasks_by_state(conn, job_id, attempt)
    counts = {role: found[role] for role in _list_role_names(record.job) if role in found}
    if filter:
        total = task_pages.count_matching_tasks(conn, job_id, attempt, filter)
    else:
        total = sum(sum(states.values()) for states in found.values())
    return _load_tasks(conn, record, attempt, filter, offset, limit), total, counts


def _load_tasks(
    conn: Connection, record: job_rows.JobDetail, attempt: int, filter: TaskFilter, offset: int, limit: int
) -> tuple[TaskRecord, ...]:
    id, roles = record.summary.id, _list_role_names(record.job)
    return tuple(task_pages.list_task_page(conn, id, attempt, filter, roles=roles, offset=offset, limit=limit))


def _list_role_names(job: Job) -> list[str]:
    return [role.name for role in job.roles]


def _count_states(tasks: Sequence[TaskAttempt]) -> StateCounts:
    found: dict[str, dict[TaskState, int]] = {}
    for task in tasks:
        states = found.setdefault(task.role, {})
        states[task.state] = states.get(task.state, 0) + 1
    return found
