"""One attempt of a job with all that is told of it, as services know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.core.attempt import Outcome
from holdfast.core.exits.exit import Exit, ExitKind
from holdfast.core.job import Job
from holdfast.core.records import JobAttempt, JobSummary, TaskRecord
from holdfast.services.jobs.service import Detail

from ..big_answers import MANY
from ..call import Call
from . import states
from .lookup import full_name, role_keys

Tries = list[TaskRecord]  # of one task in one attempt, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    summary: JobSummary
    job: Job
    framework: str
    keys: Mapping[str, str]  # role -> how it is spelled
    number: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None  # None: it goes on, or nobody wrote it down
    exit: Exit | None  # once it is over
    outcome: Outcome | None
    state: str
    tasks: Mapping[str, Mapping[int, Tries]]  # by role and index, in order
    addresses: Mapping[str, str]  # of machines, by name

    @property
    def newest(self) -> bool:
        return self.number == self.summary.attempt

    @property
    def task_count(self) -> int:
        return sum(map(len, self.tasks.values()))


async def load_newest(call: Call, summary: JobSummary) -> ShownAttempt:
    detail = await _detail(call, summary)
    past = await _past(call, detail.record.summary)
    return _shown(detail, past, detail.record.summary.attempt, await _newest_tries(call, detail), await _machines(call))


async def load_attempt(call: Call, summary: JobSummary, number: int) -> ShownAttempt | None:
    """None when there is no such attempt."""
    detail = await _detail(call, summary)
    newest = detail.record.summary.attempt
    if number > newest:
        return None
    past = await _past(call, detail.record.summary)
    tries = await _newest_tries(call, detail) if number == newest else await _tries_of(call, summary.id, number)
    return _shown(detail, past, number, tries, await _machines(call))


async def load_every_attempt(call: Call, summary: JobSummary) -> list[ShownAttempt]:
    """Oldest first."""
    await call.wait_for_slots(large=True)
    detail = await _detail(call, summary)
    past = await _past(call, detail.record.summary)
    every = {each.attempt: each.tasks for each in await call.services.jobs.attempts(call.actor, summary.id)}
    newest = detail.record.summary.attempt
    every[newest] = tuple(_with_unbegun(every.get(newest, ()), detail.tasks))
    machines = await _machines(call)
    return [_shown(detail, past, number, every[number], machines) for number in sorted(every)]


async def _detail(call: Call, summary: JobSummary) -> Detail:
    if summary.task_count * (summary.attempt + 1) > MANY:
        await call.wait_for_slots(large=True)
    return await call.services.jobs.get(call.actor, summary.id)


async def _past(call: Call, summary: JobSummary) -> Mapping[int, JobAttempt]:
    if not summary.attempt and summary.retry_at is None:
        return {}
    return {past.number: past for past in await call.services.jobs.past_attempts(call.actor, summary.id)}


async def _newest_tries(call: Call, detail: Detail) -> Iterable[TaskRecord]:
    """The newest try of each task is at hand; earlier ones are looked up only where there are some."""
    if not any(record.task.number for record in detail.tasks):
        return detail.tasks
    summary = detail.record.summary
    return _with_unbegun(await _tries_of(call, summary.id, summary.attempt), detail.tasks)


async def _tries_of(call: Call, job_id: str, number: int) -> tuple[TaskRecord, ...]:
    return await call.services.jobs.tries(call.actor, job_id, number)


def _with_unbegun(tries: Iterable[TaskRecord], newest: Iterable[TaskRecord]) -> list[TaskRecord]:
    known = {record.attempt_id: record for record in tries}
    return [*known.values(), *(record for record in newest if record.attempt_id not in known)]


async def _machines(call: Call) -> Mapping[str, str]:
    capacity = await call.services.place.capacity(call.actor)
    return {use.node.name: use.node.address for use in capacity.nodes}


def _shown(
    detail: Detail,
    past: Mapping[int, JobAttempt],
    number: int,
    tries: Iterable[TaskRecord],
    addresses: Mapping[str, str],
) -> ShownAttempt:
    summary, ended = detail.record.summary, past.get(number)
    newest = number == summary.attempt
    exit, outcome = _end(detail, ended, newest=newest)
    before = past.get(number - 1)
    return ShownAttempt(
        summary=summary,
        job=detail.record.job,
        framework=full_name(summary),
        keys=role_keys(detail.record.job),
        number=number,
        created_at=before.finished_at if before else summary.submitted_at,
        started_at=ended.started_at if ended else detail.record.attempt_started_at if newest else None,
        finished_at=ended.finished_at if ended else summary.finished_at if newest else None,
        exit=exit,
        outcome=outcome,
        state=_state(summary, exit, newest=newest),
        tasks=_in_order(detail.record.job, tries),
        addresses=addresses,
    )


def _end(detail: Detail, ended: JobAttempt | None, *, newest: bool) -> tuple[Exit | None, Outcome | None]:
    record = detail.record
    if newest and record.summary.state.final:
        stopped = record.exit is not None and record.exit.kind is ExitKind.CANCELLED
        return record.exit, None if stopped else record.outcome
    return (ended.outcome.exit, ended.outcome) if ended else (None, None)


def _state(summary: JobSummary, exit: Exit | None, *, newest: bool) -> str:
    if exit is not None:
        return states.ended_state(exit)
    return states.job_state(summary) if newest else "UNKNOWN"


def _in_order(job: Job, tries: Iterable[TaskRecord]) -> dict[str, dict[int, Tries]]:
    found: dict[str, dict[int, Tries]] = {role.name: {} for role in job.roles}
    for record in sorted(tries, key=lambda record: (record.task.index, record.task.number)):
        found.setdefault(record.task.role, {}).setdefault(record.task.index, []).append(record)
    return found
