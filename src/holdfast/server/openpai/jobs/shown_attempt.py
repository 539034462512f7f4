"""One attempt of a job with all data that responses show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.core.attempt import Outcome
from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.job import Job
from holdfast.core.records import JobAttempt, JobSummary, TaskRecord
from holdfast.services.jobs.service import JobWithTasks

from ..call import Call
from ..large_responses import MIN_THREADED_ITEMS
from . import states
from .lookup import get_framework_name, map_role_keys

Tries = list[TaskRecord]  # of one task in one attempt, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    summary: JobSummary
    job: Job
    framework: str
    role_keys: Mapping[str, str]  # role -> spelling
    number: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None  # None: it is running, or its end was not recorded
    exit: Exit | None  # once it has ended
    outcome: Outcome | None
    state: str
    tasks: Mapping[str, Mapping[int, Tries]]  # by role and index, in order
    addresses: Mapping[str, str]  # of nodes, by name

    @property
    def is_newest(self) -> bool:
        return self.number == self.summary.attempt

    @property
    def task_count(self) -> int:
        return sum(map(len, self.tasks.values()))


async def load_newest_attempt(call: Call, summary: JobSummary) -> ShownAttempt:
    detail = await _load_detail(call, summary)
    past = await _load_past_attempts(call, detail.record.summary)
    tries, addresses = await _load_newest_tries(call, detail), await load_node_addresses(call)
    return _build_attempt(detail, past, detail.record.summary.attempt, tries, addresses)


async def load_attempt(call: Call, summary: JobSummary, number: int) -> ShownAttempt | None:
    """Return the attempt, or None when it does not exist."""
    detail = await _load_detail(call, summary)
    newest = detail.record.summary.attempt
    if number > newest:
        return None
    past = await _load_past_attempts(call, detail.record.summary)
    tries = await _load_newest_tries(call, detail) if number == newest else await _load_tries(call, summary.id, number)
    return _build_attempt(detail, past, number, tries, await load_node_addresses(call))


async def load_attempts(call: Call, summary: JobSummary) -> list[ShownAttempt]:
    """Oldest first."""
    await call.wait_for_slots(large=True)
    detail = await _load_detail(call, summary)
    past = await _load_past_attempts(call, detail.record.summary)
    every = {each.attempt: each.tasks for each in await call.services.jobs.list_attempts(call.actor, summary.id)}
    newest = detail.record.summary.attempt
    every[newest] = tuple(_add_unstarted_tasks(every.get(newest, ()), detail.tasks))
    addresses = await load_node_addresses(call)
    return [_build_attempt(detail, past, number, every[number], addresses) for number in sorted(every)]


async def _load_detail(call: Call, summary: JobSummary) -> JobWithTasks:
    if summary.task_count * (summary.attempt + 1) > MIN_THREADED_ITEMS:
        await call.wait_for_slots(large=True)
    return await call.services.jobs.get(call.actor, summary.id)


async def _load_past_attempts(call: Call, summary: JobSummary) -> Mapping[int, JobAttempt]:
    if not summary.attempt and summary.retry_at is None:
        return {}
    return {past.number: past for past in await call.services.jobs.list_past_attempts(call.actor, summary.id)}


async def _load_newest_tries(call: Call, detail: JobWithTasks) -> Iterable[TaskRecord]:
    """Return the tries. The newest of each task is already loaded; earlier ones are queried only if there are some."""
    if not any(record.task.number for record in detail.tasks):
        return detail.tasks
    summary = detail.record.summary
    return _add_unstarted_tasks(await _load_tries(call, summary.id, summary.attempt), detail.tasks)


async def _load_tries(call: Call, job_id: str, number: int) -> tuple[TaskRecord, ...]:
    return await call.services.jobs.list_tries(call.actor, job_id, number)


def _add_unstarted_tasks(tries: Iterable[TaskRecord], newest: Iterable[TaskRecord]) -> list[TaskRecord]:
    known = {record.attempt_id: record for record in tries}
    return [*known.values(), *(record for record in newest if record.attempt_id not in known)]


async def load_node_addresses(call: Call) -> Mapping[str, str]:
    capacity = await call.services.installation.get_capacity(call.actor)
    return {use.node.name: use.node.address for use in capacity.nodes}


def _build_attempt(
    detail: JobWithTasks,
    past: Mapping[int, JobAttempt],
    number: int,
    tries: Iterable[TaskRecord],
    addresses: Mapping[str, str],
) -> ShownAttempt:
    summary, ended = detail.record.summary, past.get(number)
    newest = number == summary.attempt
    exit, outcome = _get_exit_and_outcome(detail, ended, newest=newest)
    before = past.get(number - 1)
    return ShownAttempt(
        summary=summary,
        job=detail.record.job,
        framework=get_framework_name(summary),
        role_keys=map_role_keys(detail.record.job),
        number=number,
        created_at=before.finished_at if before else summary.submitted_at,
        started_at=ended.started_at if ended else detail.record.attempt_started_at if newest else None,
        finished_at=ended.finished_at if ended else summary.finished_at if newest else None,
        exit=exit,
        outcome=outcome,
        state=_get_attempt_state(summary, exit, newest=newest),
        tasks=_group_tries(detail.record.job, tries),
        addresses=addresses,
    )


def _get_exit_and_outcome(
    detail: JobWithTasks, ended: JobAttempt | None, *, newest: bool
) -> tuple[Exit | None, Outcome | None]:
    record = detail.record
    if newest and record.summary.state.final:
        stopped = record.exit is not None and record.exit.kind is ExitKind.CANCELLED
        return record.exit, None if stopped else record.outcome
    return (ended.outcome.exit, ended.outcome) if ended else (None, None)


def _get_attempt_state(summary: JobSummary, exit: Exit | None, *, newest: bool) -> str:
    if exit is not None:
        return states.get_attempt_end_state(exit)
    return states.get_job_state(summary) if newest else "UNKNOWN"


def _group_tries(job: Job, tries: Iterable[TaskRecord]) -> dict[str, dict[int, Tries]]:
    found: dict[str, dict[int, Tries]] = {role.name: {} for role in job.roles}
    for record in sorted(tries, key=lambda record: (record.task.index, record.task.number)):
        found.setdefault(record.task.role, {}).setdefault(record.task.index, []).append(record)
    return found
