"""Why a job failed: collects its exits, logs and metrics, and judges them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from holdfast.core.attempt import JobSnapshot, Outcome, OutcomeResult, TaskAttempt
from holdfast.core.masking import SecretMasker
from holdfast.core.metrics.samples import TaskSummary
from holdfast.core.records import TaskRecord
from holdfast.core.states import JobState, TaskState
from holdfast.core.verdicts import Diagnosis
from holdfast.diagnosis.case import JobDiagnosisInput, LogExcerpt, TaskDiagnosisInput
from holdfast.diagnosis.job_diagnosis import diagnose_job
from holdfast.engines.base import LogSource, LogStream
from holdfast.engines.engine_set import EngineSet
from holdfast.store.database import Store
from holdfast.store.jobs import history
from holdfast.store.jobs import insights as insight_rows
from holdfast.store.jobs.records import JobDetail

from ..control import Control
from ..jobs.current_tasks import build_task_record
from ..metrics.service import SupportsSummaries
from .secret_masks import load_masker, mask_case, mask_diagnosis

log = logging.getLogger(__name__)

HEAD_SIZE = 32 * 1024  # bytes read from the start of a log
TAIL_SIZE = 256 * 1024  # bytes read from its end
SHORT_TAIL_SIZE = 64 * 1024  # bytes read from the end, for probable secondary failures
MAX_FAILED_TASKS = 200  # tasks whose exits are compared
MAX_FULL_LOGS = 2  # tasks with HEAD and TAIL
MAX_LOGS = 16  # tasks whose logs are read
TRACEBACK_MARKER = b"Traceback (most recent call last)"
LOG_TIMEOUT = 10.0  # seconds for one log; after that only the exit is used
TOTAL_LOG_TIMEOUT = 20.0  # seconds for all logs of a job together
JUDGE_TIMEOUT = 5.0  # seconds; after that the result so far is used


class Diagnoses:
    def __init__(self, store: Store, engine: EngineSet, control: Control, metrics: SupportsSummaries) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._metrics = metrics
        self._judge_executor = ThreadPoolExecutor(1, thread_name_prefix="judge")  # no job waits for it

    async def diagnose_job(self, record: JobDetail) -> Diagnosis | None:
        """Return why the job failed; None if it succeeded, was stopped or is still running."""
        case = await self._load_job_case(record)
        if case is None:
            return None
        masker = await load_masker(self._store, record.summary.id)
        return await asyncio.get_running_loop().run_in_executor(self._judge_executor, _judge_case, case, masker)

    async def _load_job_case(self, record: JobDetail) -> JobDiagnosisInput | None:
        attempt = await self._find_failed_attempt(record)
        if attempt is None:
            return None
        number, outcome = attempt
        newest = number == record.summary.attempt
        failed, stopped = await self._load_ended_tasks(record, number)
        return JobDiagnosisInput(
            job=record.job,
            ref=record.summary.id,
            attempt=number,
            exit=(record.exit if newest else None) or (outcome.exit if outcome else None),
            message=record.summary.message if newest else "",
            outcome=outcome,
            tasks=await self._load_task_cases(record, failed, stopped),
            failed=len(failed),
            time_limit=self._control.get_time_limit(record.job),
        )

    async def _find_failed_attempt(self, record: JobDetail) -> tuple[int, Outcome | None] | None:
        """Return the newest failed attempt, unless a later one succeeded or was stopped."""
        state, number, outcome = record.summary.state, record.summary.attempt, record.outcome
        if state.final:
            return (number, outcome) if state is JobState.FAILED else None
        failing = outcome is not None and outcome.result is OutcomeResult.FAILED
        if record.stop is None and (failing or state is JobState.HELD) and record.retry_at is None:
            return number, outcome
        past = (
            await self._store.read(history.list_past_attempts, record.summary.id) if number or record.retry_at else []
        )
        last = past[-1] if past else None
        return (last.number, last.outcome) if last and last.outcome.result is OutcomeResult.FAILED else None

    async def _load_ended_tasks(self, record: JobDetail, attempt: int) -> tuple[list[TaskRecord], list[TaskRecord]]:
        """Return failed tasks in the order in which their commands ended, and some of the tasks stopped after that."""
        live = self._control.get_active_job(record.summary.id)
        if live is not None and live.attempt == attempt:
            ended = _list_ended_live_tasks(live)
            failed = [each for each in ended if each.task.state is not TaskState.STOPPED]
            stopped = [each for each in ended if each.task.state is TaskState.STOPPED]
        else:
            key = (record.summary.id, record.summary.seq, attempt)
            failed = await self._store.read(insight_rows.list_ended_tasks, *key, (TaskState.FAILED,), MAX_FAILED_TASKS)
            stopped = await self._store.read(insight_rows.list_ended_tasks, *key, (TaskState.STOPPED,), MAX_LOGS)
        return sorted(failed, key=_get_end_key), sorted(stopped, key=_get_end_key)[:MAX_LOGS]

    async def _load_task_cases(
        self, record: JobDetail, failed: Sequence[TaskRecord], stopped: Sequence[TaskRecord]
    ) -> tuple[TaskDiagnosisInput, ...]:
        cases = []
        looked_at = [*failed[:MAX_LOGS], *stopped[: max(MAX_LOGS - len(failed), 0)]]
        until = asyncio.get_running_loop().time() + TOTAL_LOG_TIMEOUT
        used = await self._metrics.read_summaries([each.attempt_id for each in looked_at])
        for number, each in enumerate(looked_at):
            head, tail = (HEAD_SIZE, TAIL_SIZE) if number < MAX_FULL_LOGS else (0, SHORT_TAIL_SIZE)
            log = await self._read_log(each, LogStream.MERGED, head, tail, until)
            cut = len(log) > 1 or (log and log[0].start > 0)
            raised = any(TRACEBACK_MARKER in piece.data for piece in log)  # other output may be mixed into it
            errors = await self._read_log(each, LogStream.STDERR, 0, SHORT_TAIL_SIZE, until) if cut or raised else ()
            case = _build_task_case(record, each, used.get(each.attempt_id))
            watched = self._engine.find_health(each.task.engine).limits == "watched"
            cases.append(replace(case, watched=watched, log=log, errors=errors))
        return (*cases, *(_build_task_case(record, each) for each in failed[MAX_LOGS:]))

    async def _read_log(
        self, record: TaskRecord, stream: LogStream, head: int, tail: int, until: float
    ) -> tuple[LogExcerpt, ...]:
        """Read both ends of a log; empty if it cannot be read in time. The diagnosis then uses the exit alone."""
        now = asyncio.get_running_loop().time()
        if now >= until:
            return ()
        source = self._engine.open_log(record.attempt_id, stream) if record.logs_removed_at is None else None
        if source is None:
            return ()
        try:
            async with asyncio.timeout_at(min(now + LOG_TIMEOUT, until)):
                return await read_log_ends(source, head, tail)
        except Exception as error:
            extra = {"event": "diagnose", "attempt": record.attempt_id, "error": str(error)}
            log.warning("could not read a log for a diagnosis", extra=extra)
            return ()


def _judge_case(case: JobDiagnosisInput, masker: SecretMasker) -> Diagnosis | None:
    """Judge a case within JUDGING seconds. Secrets are masked before, so that truncated text shows no part of one, and
    after, for secrets that a rule decoded from another form."""
    case = mask_case(masker, case)
    until = time.monotonic() + JUDGE_TIMEOUT
    found = diagnose_job(replace(case, time_up=lambda: time.monotonic() >= until))
    return None if found is None else mask_diagnosis(masker, found)


async def read_log_ends(source: LogSource, head: int, tail: int) -> tuple[LogExcerpt, ...]:
    """Return the first and last bytes of a log; a short log in one piece."""
    end, first = await source.get_size(), await source.find_first_offset()
    if end - first <= head + tail:
        return (await _read_log_range(source, first, end),)
    late = await _read_log_range(source, end - tail, end)
    return (await _read_log_range(source, first, first + head), late) if head else (late,)


async def _read_log_range(source: LogSource, start: int, end: int) -> LogExcerpt:
    at, parts = start, list[bytes]()
    while at < end and (data := await source.read(at, end - at)):
        parts.append(data)
        at += len(data)
    return LogExcerpt(start, b"".join(parts))


def _list_ended_live_tasks(live: JobSnapshot) -> list[TaskRecord]:
    """Return the failed and stopped tasks of the current attempt, including those on hold."""
    return [
        build_task_record(live.id, live.attempt, task)
        for task in live.tasks
        if task.state in (TaskState.FAILED, TaskState.STOPPED, TaskState.HELD)
    ]


def _build_task_case(record: JobDetail, each: TaskRecord, used: TaskSummary | None = None) -> TaskDiagnosisInput:
    task = each.task
    exit = task.held.exit if task.held else task.exit
    assert exit is not None
    role = record.job.get_role(task.role)
    return TaskDiagnosisInput(
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


def _get_end_key(record: TaskRecord) -> tuple[float, str, int]:
    task: TaskAttempt = record.task
    at = task.worked_until or task.started_at
    return (at.timestamp() if at else 0.0, task.role, task.index)
