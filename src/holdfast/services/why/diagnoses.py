"""Why a job failed: gathers what it left behind, and has it judged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from holdfast.core.attempt import JobSnapshot, Outcome, Result, TaskAttempt
from holdfast.core.masking import SecretMasker
from holdfast.core.metrics.samples import TaskSummary
from holdfast.core.records import TaskRecord
from holdfast.core.states import JobState, TaskState
from holdfast.core.verdicts import Diagnosis
from holdfast.diagnosis.case import Case, Piece, TaskCase
from holdfast.diagnosis.judge import judge
from holdfast.engines.base import Engine, LogSource, Stream
from holdfast.store.database import Store
from holdfast.store.jobs import history
from holdfast.store.jobs import insights as insight_rows
from holdfast.store.jobs.records import JobDetail

from ..control import Control
from ..metrics.service import GivesSummaries
from .secret_masks import load_masker, mask_case, mask_diagnosis

log = logging.getLogger(__name__)

HEAD = 32 * 1024  # bytes of a log's beginning that are looked at
TAIL = 256 * 1024  # and of its end
BESIDE = 64 * 1024  # of the end, of tasks that others may have brought down
MAX_FAILED = 200  # tasks whose ends are compared
MAX_WHOLE = 2  # whose logs are read in full measure
MAX_LOGS = 16  # whose logs are read at all
TRACEBACK = b"Traceback (most recent call last)"
TIMEOUT = 10.0  # seconds for one log; after that it goes by the exit alone
TOTAL_TIMEOUT = 20.0  # seconds for all logs of a job together
JUDGING = 5.0  # seconds; after that it goes by what was found so far


class Diagnoses:
    def __init__(self, store: Store, engine: Engine, control: Control, metrics: GivesSummaries) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._metrics = metrics
        self._judging = ThreadPoolExecutor(1, thread_name_prefix="judge")  # one: it is for no job to wait for

    async def of(self, record: JobDetail) -> Diagnosis | None:
        """None where nothing failed: it succeeded, was stopped by somebody, or goes on."""
        case = await self._case(record)
        if case is None:
            return None
        masker = await load_masker(self._store, record.summary.id)
        return await asyncio.get_running_loop().run_in_executor(self._judging, _judged, case, masker)

    async def _case(self, record: JobDetail) -> Case | None:
        attempt = await self._failed_attempt(record)
        if attempt is None:
            return None
        number, outcome = attempt
        newest = number == record.summary.attempt
        failed, stopped = await self._tasks(record, number)
        return Case(
            job=record.job,
            ref=record.summary.id,
            attempt=number,
            exit=(record.exit if newest else None) or (outcome.exit if outcome else None),
            message=record.summary.message if newest else "",
            outcome=outcome,
            tasks=await self._with_logs(record, failed, stopped),
            failed=len(failed),
            time_limit=self._control.time_limit(record.job),
        )

    async def _failed_attempt(self, record: JobDetail) -> tuple[int, Outcome | None] | None:
        """The newest attempt of the job that failed, unless a later one went well or was stopped."""
        state, number, outcome = record.summary.state, record.summary.attempt, record.outcome
        if state.final:
            return (number, outcome) if state is JobState.FAILED else None
        failing = outcome is not None and outcome.result is Result.FAILED
        if record.stop is None and (failing or state is JobState.HELD) and record.retry_at is None:
            return number, outcome
        past = await self._store.read(history.past_attempts, record.summary.id) if number or record.retry_at else []
        last = past[-1] if past else None
        return (last.number, last.outcome) if last and last.outcome.result is Result.FAILED else None

    async def _tasks(self, record: JobDetail, attempt: int) -> tuple[list[TaskRecord], list[TaskRecord]]:
        """Those that failed, in the order in which their commands ended, and some of those that we stopped then."""
        live = self._control.active(record.summary.id)
        if live is not None and live.attempt == attempt:
            ended = _live_records(live)
            failed = [each for each in ended if each.task.state is not TaskState.STOPPED]
            stopped = [each for each in ended if each.task.state is TaskState.STOPPED]
        else:
            key = (record.summary.id, record.summary.seq, attempt)
            failed = await self._store.read(insight_rows.ended_tasks, *key, (TaskState.FAILED,), MAX_FAILED)
            stopped = await self._store.read(insight_rows.ended_tasks, *key, (TaskState.STOPPED,), MAX_LOGS)
        return sorted(failed, key=_ended), sorted(stopped, key=_ended)[:MAX_LOGS]

    async def _with_logs(
        self, record: JobDetail, failed: Sequence[TaskRecord], stopped: Sequence[TaskRecord]
    ) -> tuple[TaskCase, ...]:
        cases, watched = [], self._engine.health().limits == "watched"
        looked_at = [*failed[:MAX_LOGS], *stopped[: max(MAX_LOGS - len(failed), 0)]]
        until = asyncio.get_running_loop().time() + TOTAL_TIMEOUT
        used = await self._metrics.summaries([each.attempt_id for each in looked_at])
        for number, each in enumerate(looked_at):
            head, tail = (HEAD, TAIL) if number < MAX_WHOLE else (0, BESIDE)
            log = await self._log(each, Stream.MERGED, head, tail, until)
            cut = len(log) > 1 or (log and log[0].start > 0)
            raised = any(TRACEBACK in piece.data for piece in log)  # other output may stand within it
            errors = await self._log(each, Stream.STDERR, 0, BESIDE, until) if cut or raised else ()
            case = _task_case(record, each, used.get(each.attempt_id))
            cases.append(replace(case, watched=watched, log=log, errors=errors))
        return (*cases, *(_task_case(record, each) for each in failed[MAX_LOGS:]))

    async def _log(self, record: TaskRecord, stream: Stream, head: int, tail: int, until: float) -> tuple[Piece, ...]:
        """A log that cannot be read tells nothing, nor does one whose turn comes too late; the exit still does."""
        now = asyncio.get_running_loop().time()
        if now >= until:
            return ()
        source = self._engine.log(record.attempt_id, stream) if record.logs_removed_at is None else None
        if source is None:
            return ()
        try:
            async with asyncio.timeout_at(min(now + TIMEOUT, until)):
                return await read_ends(source, head, tail)
        except Exception as error:
            said = {"event": "diagnose", "attempt": record.attempt_id, "error": str(error)}
            log.warning("could not look for a cause in a log", extra=said)
            return ()


def _judged(case: Case, masker: SecretMasker) -> Diagnosis | None:
    """In the time that one job may take: others wait for theirs. Secrets are hidden before, so that a text that is cut
    short shows no part of one, and after, for what was written in some other form and read by a rule."""
    case = mask_case(masker, case)
    until = time.monotonic() + JUDGING
    found = judge(replace(case, time_up=lambda: time.monotonic() >= until))
    return None if found is None else mask_diagnosis(masker, found)


async def read_ends(source: LogSource, head: int, tail: int) -> tuple[Piece, ...]:
    """The first and the last bytes of a log; all of it in one piece where that is not more."""
    end, first = await source.size(), await source.first()
    if end - first <= head + tail:
        return (await _read(source, first, end),)
    late = await _read(source, end - tail, end)
    return (await _read(source, first, first + head), late) if head else (late,)


async def _read(source: LogSource, start: int, end: int) -> Piece:
    at, parts = start, list[bytes]()
    while at < end and (data := await source.read(at, end - at)):
        parts.append(data)
        at += len(data)
    return Piece(start, b"".join(parts))


def _live_records(live: JobSnapshot) -> list[TaskRecord]:
    """Of the tasks of an attempt that goes on: those whose command has ended badly, also while they are held."""
    return [
        TaskRecord(job_id=live.id, attempt=live.attempt, task=task, attempt_id=live.attempt_id(task))
        for task in live.tasks
        if task.state in (TaskState.FAILED, TaskState.STOPPED, TaskState.HELD)
    ]


def _task_case(record: JobDetail, each: TaskRecord, used: TaskSummary | None = None) -> TaskCase:
    task = each.task
    exit = task.held.exit if task.held else task.exit
    assert exit is not None
    role = record.job.role(task.role)
    return TaskCase(
        task=task.task,
        role=role,
        exit=exit,
        started_at=task.started_at,
        ended_at=task.worked_until,
        stopped=task.state is TaskState.STOPPED,
        held=task.state is TaskState.HELD,
        memory_peak=used.memory_peak if used else None,
        memory_limit=(used.memory_limit if used else None) or role.resources.memory,
    )


def _ended(record: TaskRecord) -> tuple[float, str, int]:
    task: TaskAttempt = record.task
    at = task.worked_until or task.started_at
    return (at.timestamp() if at else 0.0, task.role, task.index)
