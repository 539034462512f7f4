"""Logs of task tries: selecting, reading, following and searching."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import Expired, Forbidden, NotFound, NotLoggedIn
from holdfast.core.job import Job
from holdfast.core.messages import join_messages, msg
from holdfast.core.planning.builder import NEVER_STARTED_PREFIX
from holdfast.core.planning.task_requests import build_task_attempts
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Engine, LogSource, LogStream, WrittenRange
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

from ..control import Control
from ..errors import LogNotFound
from ..job_lookup import find_job
from ..jobs.current_tasks import build_task_record
from ..people.tokens import Tokens
from ..why.secret_masks import load_masker
from .links import LinkTarget, LogLinks
from .reading import FOLLOW_INTERVAL, LogSpan, find_first_lines_end, find_last_lines_start, follow_source, get_full_span
from .search import LogSearcher, SearchQuery, SearchResult
from .task_choice import choose_default_task, format_task_names, get_deciding_task, resolve_task_name

END_TIMEOUT = 2.0  # seconds to wait for the end of a task after its last byte


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSelection:
    """Selects a log. Default: the newest try of the deciding task, or of the first task if there is none yet."""

    ref: str
    task: str | None = None
    attempt: int | None = None
    number: int | None = None  # which try of the task
    stream: LogStream = LogStream.MERGED


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLog:
    """The log of one try of one task."""

    job: JobSummary
    record: TaskRecord
    stream: LogStream

    @property
    def file_name(self) -> str:
        return f"{self.record.attempt_id}.{self.stream.value}.log"


@dataclass(frozen=True, slots=True)
class LinkedLog:
    """A log opened by a link."""

    log: TaskLog
    token_id: str  # of the login that created the link; empty: a guest


@dataclass(frozen=True, slots=True)
class EndState:
    """States of job and task when a log was complete."""

    job_state: JobState
    task_state: TaskState
    exit_code: int | None  # of the task


@dataclass(frozen=True, slots=True)
class WriteTimes:
    pieces: tuple[WrittenRange, ...]
    next: int | None  # where to continue


class Logs:
    def __init__(self, store: Store, engine: Engine, control: Control, links: LogLinks, tokens: Tokens) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._links = links
        self._tokens = tokens
        self._searches = LogSearcher()

    async def select_log(self, actor: Actor, selection: LogSelection) -> TaskLog:
        """Select a log. NotFound if there is no such job, task or try."""
        return await self._resolve_log(await find_job(self._store, actor, selection.ref), selection)

    async def _resolve_log(self, job: JobSummary, selection: LogSelection) -> TaskLog:
        record = await self._find_try(job, selection)
        if record is None:
            roles = (await self._store.read(job_rows.load_job_detail, job.id)).job
            meant = resolve_task_name(roles, selection.task or "")
            record = await self._find_try(job, replace(selection, task=meant)) if meant else None
            if record is None:
                raise _build_try_not_found_error(job, roles, selection)
        return TaskLog(job=job, record=record, stream=selection.stream)

    async def _find_try(self, job: JobSummary, selection: LogSelection) -> TaskRecord | None:
        return self._find_live_try(job.id, selection) or await self._store.read(_load_stored_try, job.id, selection)

    def create_link(self, record: TaskRecord, token_id: str) -> str:
        """The link is short-lived and needs no login; valid only while the login with this token can read the job."""
        task = record.task
        return self._links.create_link(LinkTarget(record.job_id, record.attempt, task.task, task.number, token_id))

    async def open_link(self, link: str, stream: LogStream) -> LinkedLog:
        """Open a link. Forbidden if it or its login has expired, NotFound if that user can no longer read the job."""
        meant = self._links.resolve_link(link)
        try:
            maker = await self.load_link_creator(meant.token_id)
            job = await find_job(self._store, maker, meant.job_id)
        except NotLoggedIn:
            message = msg("This log link has expired: the login that created it has ended")
            raise Forbidden(message, hint=msg("Request the list of logs again.")) from None
        wanted = LogSelection(ref=job.id, task=meant.task, attempt=meant.attempt, number=meant.number, stream=stream)
        return LinkedLog(await self._resolve_log(job, wanted), meant.token_id)

    async def load_link_creator(self, token_id: str) -> Actor:
        """Return the user who created a link, with current permissions."""
        return await self._tokens.resolve_actor_by_id(token_id)

    def _find_live_try(self, job_id: str, selection: LogSelection) -> TaskRecord | None:
        """Find a try of the current attempt of an active job, from memory."""
        live = self._control.get_active_job(job_id)
        if live is None or selection.attempt not in (None, live.attempt):
            return None
        if not selection.task and live.retry_at is not None:
            return None  # the deciding task of the ended attempt is in the store
        wanted = selection.task or get_deciding_task(live.outcome)
        for task in live.tasks or build_task_attempts(live.job):
            if wanted in (None, task.task):
                if selection.number not in (None, task.number):
                    return None
                return build_task_record(job_id, live.attempt, task)
        return None

    def open_source(self, chosen: TaskLog) -> LogSource:
        """Open a log. Expired if it was deleted, NotFound if nothing has been written yet."""
        source = self._engine.open_log(chosen.record.attempt_id, chosen.stream)
        if source is None or chosen.record.logs_removed_at is not None:
            raise _build_log_missing_error(chosen)
        return source

    def find_source(self, chosen: TaskLog) -> LogSource | None:
        return self._engine.open_log(chosen.record.attempt_id, chosen.stream)

    def check_follow(self, chosen: TaskLog) -> None:
        """Raise an error if the log was deleted or the task can never start."""
        gone = chosen.record.logs_removed_at is not None
        if gone or (self.find_source(chosen) is None and not self._is_try_active(chosen)):
            raise _build_log_missing_error(chosen)

    async def get_full_span(self, source: LogSource) -> LogSpan:
        """Return the span of all stored bytes."""
        return await get_full_span(source)

    async def get_last_lines(self, source: LogSource, lines: int) -> LogSpan:
        span = await get_full_span(source)
        return LogSpan(await find_last_lines_start(source, span, lines), span.end, span.size, span.complete)

    async def get_span_tail(self, source: LogSource, span: LogSpan, lines: int, most: int) -> LogSpan:
        """Return the last `lines` lines of `span`, limited to `most` bytes."""
        near = replace(span, start=max(span.start, span.end - most))
        return replace(span, start=await find_last_lines_start(source, near, lines))

    async def get_span_head(self, source: LogSource, span: LogSpan, lines: int, most: int) -> LogSpan:
        """Return the first `lines` lines of `span`, limited to `most` bytes."""
        near = replace(span, end=min(span.end, span.start + most))
        return replace(span, end=await find_first_lines_end(source, near, lines))

    async def list_tries(self, chosen: TaskLog) -> tuple[TaskRecord, ...]:
        """Return all tries of the same task, in all attempts of the job, oldest first."""
        return tuple(await self._store.read(job_rows.list_tries_of_task, chosen.job.id, chosen.record.task.task))

    async def get_span_since(self, source: LogSource, when: datetime) -> LogSpan:
        span = await get_full_span(source)
        start = max(span.start, await source.find_offset(when))
        return LogSpan(min(start, span.end), span.end, span.size, span.complete)

    async def load_write_times(self, source: LogSource, start: int, end: int, most: int) -> WriteTimes:
        """Return when the bytes from `start` to `end` were written, as far as known."""
        pieces = tuple(await source.list_write_times(start, end, most))
        return WriteTimes(pieces, pieces[-1].end if len(pieces) >= most and pieces[-1].end < end else None)

    async def search_log(self, actor: Actor, source: LogSource, question: SearchQuery) -> SearchResult:
        return await self._searches.search_log(source, question, user=actor.name)

    async def mask_secrets(self, chosen: TaskLog, data: bytes, *, cut: bool) -> bytes:
        """Replace the job's secrets in a piece of a log by stars. `cut`: its start is missing."""
        masker = await load_masker(self._store, chosen.job.id)
        return await asyncio.to_thread(masker.mask_bytes, data, cut_start=cut)

    # -- following

    async def follow_log(
        self, chosen: TaskLog, start: int, *, held: bool = False
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield (offset, bytes) until the task has ended, and empty bytes about once a second while there is no output,
        also before its start. With `held`, end at the first pause of a task on hold: a hold can last for weeks."""
        while (source := self._engine.open_log(chosen.record.attempt_id, chosen.stream)) is None:
            if chosen.record.logs_removed_at is not None or not self._is_try_active(chosen):
                return
            yield start, b""
            await self._control.wait_for_change(chosen.job.id, FOLLOW_INTERVAL)
        async with aclosing(follow_source(source, start)) as pieces:
            async for piece in pieces:
                if held and not piece[1] and self.is_task_held(chosen):
                    return
                yield piece

    def is_task_held(self, chosen: TaskLog) -> bool:
        live = _find_current_record(self._control.get_active_job(chosen.job.id), chosen.record)
        return live is not None and live.task.state is TaskState.HELD

    def _is_try_active(self, chosen: TaskLog) -> bool:
        task = _find_current_record(self._control.get_active_job(chosen.job.id), chosen.record)
        return task is not None and not task.task.state.ended

    async def wait_for_end_state(self, chosen: TaskLog) -> EndState:
        """Wait until the end of the task is recorded, and return its state. Call after following the log."""
        live = _find_current_record(self._control.get_active_job(chosen.job.id), chosen.record)
        waited = 0.0
        while live is not None and not live.task.state.ended and waited < END_TIMEOUT:
            await self._control.wait_for_change(chosen.job.id, 0.1)
            waited += 0.1
            live = _find_current_record(self._control.get_active_job(chosen.job.id), chosen.record)
        record = live or await self._store.read(job_rows.find_task_try, chosen.record.attempt_id) or chosen.record
        job = await self._store.read(job_rows.find_job, chosen.job.id) or chosen.job
        exit = record.task.exit
        return EndState(job.state, record.task.state, exit.code if exit is not None else None)


def _find_current_record(live: JobSnapshot | None, record: TaskRecord) -> TaskRecord | None:
    """Return the current record of a try; None if it is not the newest try of an active job."""
    if live is None or live.attempt != record.attempt:
        return None
    for task in live.tasks or build_task_attempts(live.job):
        if (task.role, task.index, task.number) == (record.task.role, record.task.index, record.task.number):
            return build_task_record(live.id, live.attempt, task)
    return None


def _load_stored_try(conn: Connection, job_id: str, selection: LogSelection) -> TaskRecord | None:
    """Return the newest stored try that matches."""
    task = selection.task or choose_default_task(conn, job_id, selection.attempt)
    matching = [
        record
        for record in job_rows.list_tries_of_task(conn, job_id, task)
        if selection.attempt in (None, record.attempt) and selection.number in (None, record.task.number)
    ]
    return matching[-1] if matching else None


def _build_try_not_found_error(job: JobSummary, roles: Job, selection: LogSelection) -> NotFound:
    if job.started_at is None:
        return LogNotFound(msg("{name} never started, so there is no log", name=job.name), hint=job.message or None)
    selected = {"task": selection.task and selection.task[:100], "attempt": selection.attempt, "try": selection.number}
    what = ", ".join(f"{name} {value}" for name, value in selected.items() if value is not None)
    return NotFound(
        msg("{name} has no {what}", name=job.name, what=what or "task"),
        field="task",
        hint=msg(
            "Choose one of {roles}. `holdfast show --attempts {id}` lists all tries.",
            roles=format_task_names(roles),
            id=job.id,
        ),
    )


def _build_log_missing_error(chosen: TaskLog) -> Expired | LogNotFound:
    record = chosen.record
    if record.logs_removed_at is not None:
        return Expired(
            msg(
                "The log of {task} expired on {logs_removed_at}",
                task=record.task.task,
                logs_removed_at=f"{record.logs_removed_at:%Y-%m-%d}",
            ),
            hint=msg("The job's details and events are still available."),
        )
    if record.task.state.ended:
        exit = record.task.exit
        why = exit.message.removeprefix(NEVER_STARTED_PREFIX) if exit is not None else ""
        return LogNotFound(
            msg(
                "{task} never started, so there is no log{why}",
                task=record.task.task,
                why=why and join_messages("", (": ", why)),
            )
        )
    return LogNotFound(
        msg("{task} has not started yet", task=record.task.task),
        hint=msg("Follow the log to see its output when the task starts."),
    )
