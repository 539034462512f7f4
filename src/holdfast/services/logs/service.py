"""Logs: which one is meant, and reading, following and searching it."""

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
from holdfast.core.plan import NEVER_STARTED, fresh_tasks
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Engine, LogSource, Stream, Written
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

from ..control import Control
from ..job_lookup import find_job
from ..people.tokens import Tokens
from ..refusals import NoLog
from ..why.secret_masks import load_masker
from .links import Linked, LogLinks
from .reading import TICK, Span, first_lines_end, follow, last_lines_start, whole
from .search import Found, Question, Searches
from .task_choice import decided_by, meant_task, task_names, usual_task

SETTLE = 2.0  # seconds the end of a task may take to be noted after its last byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which log: without more, the newest try of the task that decided, or of the first while none has."""

    ref: str
    task: str | None = None
    attempt: int | None = None
    number: int | None = None  # which try of the task
    stream: Stream = Stream.MERGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One try of one task, whose log it is."""

    job: JobSummary
    record: TaskRecord
    stream: Stream

    @property
    def file_name(self) -> str:
        return f"{self.record.attempt_id}.{self.stream.value}.log"


@dataclass(frozen=True, slots=True)
class LinkedLog:
    """A log that a link opens."""

    chosen: Chosen
    token_id: str  # of the link's maker; empty: a guest


@dataclass(frozen=True, slots=True)
class Ended:
    """How things stood when a log was complete."""

    job_state: JobState
    task_state: TaskState
    exit_code: int | None  # of the task


@dataclass(frozen=True, slots=True)
class Times:
    pieces: tuple[Written, ...]
    next: int | None  # where to go on


class Logs:
    def __init__(self, store: Store, engine: Engine, control: Control, links: LogLinks, tokens: Tokens) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._links = links
        self._tokens = tokens
        self._searches = Searches()

    async def choose(self, actor: Actor, selection: Selection) -> Chosen:
        """NotFound when there is no such job, task or try."""
        return await self._choose(await find_job(self._store, actor, selection.ref), selection)

    async def _choose(self, job: JobSummary, selection: Selection) -> Chosen:
        record = await self._try(job, selection)
        if record is None:
            roles = (await self._store.read(job_rows.get, job.id)).job
            meant = meant_task(roles, selection.task or "")
            record = await self._try(job, replace(selection, task=meant)) if meant else None
            if record is None:
                raise _no_such_try(job, roles, selection)
        return Chosen(job=job, record=record, stream=selection.stream)

    async def _try(self, job: JobSummary, selection: Selection) -> TaskRecord | None:
        return self._live_try(job.id, selection) or await self._store.read(_stored_try, job.id, selection)

    def link(self, record: TaskRecord, token_id: str) -> str:
        """A link that opens the log of this try without a login, for a short while and as long as the user with this
        token may read it."""
        task = record.task
        return self._links.make(Linked(record.job_id, record.attempt, task.task, task.number, token_id))

    async def linked(self, link: str, stream: Stream) -> LinkedLog:
        """Forbidden when the link or the login of its maker has ended, NotFound when the maker may not see the job."""
        meant = self._links.open(link)
        try:
            maker = await self.link_maker(meant.token_id)
            job = await find_job(self._store, maker, meant.job_id)
        except NotLoggedIn:
            said = msg("This log link is no longer valid: the login that it was made with has ended")
            raise Forbidden(said, hint=msg("Ask for the list of logs again.")) from None
        wanted = Selection(ref=job.id, task=meant.task, attempt=meant.attempt, number=meant.number, stream=stream)
        return LinkedLog(await self._choose(job, wanted), meant.token_id)

    async def link_maker(self, token_id: str) -> Actor:
        """Who made a link, as of now."""
        return await self._tokens.holder(token_id)

    def _live_try(self, job_id: str, selection: Selection) -> TaskRecord | None:
        """From memory, when it is about the current attempt of a job that is not final."""
        live = self._control.active(job_id)
        if live is None or selection.attempt not in (None, live.attempt):
            return None
        if not selection.task and live.retry_at is not None:
            return None  # who decided the attempt that is over is in the store
        wanted = selection.task or decided_by(live.outcome)
        for task in live.tasks or fresh_tasks(live.job):
            if wanted in (None, task.task):
                if selection.number not in (None, task.number):
                    return None
                return TaskRecord(job_id=job_id, attempt=live.attempt, task=task, attempt_id=live.attempt_id(task))
        return None

    def source(self, chosen: Chosen) -> LogSource:
        """Expired when it was removed, NoLog when nothing has been written yet."""
        source = self._engine.log(chosen.record.attempt_id, chosen.stream)
        if source is None or chosen.record.logs_removed_at is not None:
            raise _missing(chosen)
        return source

    def source_if_any(self, chosen: Chosen) -> LogSource | None:
        return self._engine.log(chosen.record.attempt_id, chosen.stream)

    def check_follow(self, chosen: Chosen) -> None:
        """Refuse to follow what is gone, or can never come."""
        gone = chosen.record.logs_removed_at is not None
        if gone or (self.source_if_any(chosen) is None and not self._may_start(chosen)):
            raise _missing(chosen)

    async def span(self, source: LogSource) -> Span:
        """All that is kept."""
        return await whole(source)

    async def last_lines(self, source: LogSource, lines: int) -> Span:
        span = await whole(source)
        return Span(await last_lines_start(source, span, lines), span.end, span.size, span.complete)

    async def lines_before(self, source: LogSource, span: Span, lines: int, most: int) -> Span:
        """The last `lines` lines of `span`, or fewer: at most so many bytes."""
        near = replace(span, start=max(span.start, span.end - most))
        return replace(span, start=await last_lines_start(source, near, lines))

    async def next_lines(self, source: LogSource, span: Span, lines: int, most: int) -> Span:
        """The first `lines` lines of `span`, or fewer: at most so many bytes."""
        near = replace(span, end=min(span.end, span.start + most))
        return replace(span, end=await first_lines_end(source, near, lines))

    async def tries(self, chosen: Chosen) -> tuple[TaskRecord, ...]:
        """All tries of the same task, in all attempts of the job, in that order."""
        return tuple(await self._store.read(job_rows.tries, chosen.job.id, chosen.record.task.task))

    async def since(self, source: LogSource, when: datetime) -> Span:
        span = await whole(source)
        start = max(span.start, await source.offset_at(when))
        return Span(min(start, span.end), span.end, span.size, span.complete)

    async def times(self, source: LogSource, start: int, end: int, most: int) -> Times:
        """When the bytes from `start` to `end` were written, as far as that is known."""
        pieces = tuple(await source.times(start, end, most))
        return Times(pieces, pieces[-1].end if len(pieces) >= most and pieces[-1].end < end else None)

    async def search(self, actor: Actor, source: LogSource, question: Question) -> Found:
        return await self._searches.search(source, question, user=actor.name)

    async def mask_secrets(self, chosen: Chosen, data: bytes, *, cut: bool) -> bytes:
        """A piece of a log with stars in place of the job's secrets; `cut`: its beginning is missing."""
        masker = await load_masker(self._store, chosen.job.id)
        return await asyncio.to_thread(masker.mask_bytes, data, cut_start=cut)

    # -- following

    async def follow(
        self, chosen: Chosen, start: int, *, held: bool = False
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """(offset, bytes) until the task has ended; empty bytes about once a second while nothing comes. Also before
        the task has started. With `held`, only until nothing comes of one that is held: that may last for weeks."""
        while (source := self._engine.log(chosen.record.attempt_id, chosen.stream)) is None:
            if chosen.record.logs_removed_at is not None or not self._may_start(chosen):
                return
            yield start, b""
            await self._control.changed(chosen.job.id, TICK)
        async with aclosing(follow(source, start)) as pieces:
            async for piece in pieces:
                if held and not piece[1] and self.is_held(chosen):
                    return
                yield piece

    def is_held(self, chosen: Chosen) -> bool:
        live = _find(self._control.active(chosen.job.id), chosen.record)
        return live is not None and live.task.state is TaskState.HELD

    def _may_start(self, chosen: Chosen) -> bool:
        """Whether this try is still to come, or just coming."""
        task = _find(self._control.active(chosen.job.id), chosen.record)
        return task is not None and not task.task.state.ended

    async def end(self, chosen: Chosen) -> Ended:
        """After following: how the task ended, as soon as that is known."""
        live = _find(self._control.active(chosen.job.id), chosen.record)
        waited = 0.0
        while live is not None and not live.task.state.ended and waited < SETTLE:
            await self._control.changed(chosen.job.id, 0.1)
            waited += 0.1
            live = _find(self._control.active(chosen.job.id), chosen.record)
        record = live or await self._store.read(job_rows.task, chosen.record.attempt_id) or chosen.record
        job = await self._store.read(job_rows.find, chosen.job.id) or chosen.job
        exit = record.task.exit
        return Ended(job.state, record.task.state, exit.code if exit is not None else None)


def _find(live: JobSnapshot | None, record: TaskRecord) -> TaskRecord | None:
    """The same try, as it stands now; None when it is no longer the newest one of an unfinished job."""
    if live is None or live.attempt != record.attempt:
        return None
    for task in live.tasks or fresh_tasks(live.job):
        if (task.role, task.index, task.number) == (record.task.role, record.task.index, record.task.number):
            return TaskRecord(job_id=live.id, attempt=live.attempt, task=task, attempt_id=live.attempt_id(task))
    return None


def _stored_try(conn: Connection, job_id: str, selection: Selection) -> TaskRecord | None:
    """The newest try that fits."""
    task = selection.task or usual_task(conn, job_id, selection.attempt)
    fitting = [
        record
        for record in job_rows.tries(conn, job_id, task)
        if selection.attempt in (None, record.attempt) and selection.number in (None, record.task.number)
    ]
    return fitting[-1] if fitting else None


def _no_such_try(job: JobSummary, roles: Job, selection: Selection) -> NotFound:
    if job.started_at is None:
        return NoLog(msg("{name} never started, so there is no log", name=job.name), hint=job.message or None)
    asked = {"task": selection.task and selection.task[:100], "attempt": selection.attempt, "try": selection.number}
    what = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
    return NotFound(
        msg("{name} has no {what}", name=job.name, what=what or "task"),
        field="task",
        hint=msg(
            "Its tasks are {roles}. `holdfast show --attempts {id}` lists every try of them.",
            roles=task_names(roles),
            id=job.id,
        ),
    )


def _missing(chosen: Chosen) -> Expired | NoLog:
    record = chosen.record
    if record.logs_removed_at is not None:
        return Expired(
            msg(
                "The log of {task} expired on {logs_removed_at}",
                task=record.task.task,
                logs_removed_at=f"{record.logs_removed_at:%Y-%m-%d}",
            ),
            hint=msg("The job's record and events are kept."),
        )
    if record.task.state.ended:
        exit = record.task.exit
        why = exit.message.removeprefix(NEVER_STARTED) if exit is not None else ""
        return NoLog(
            msg(
                "{task} never started, so there is no log{why}",
                task=record.task.task,
                why=why and join_messages("", (": ", why)),
            )
        )
    return NoLog(
        msg("{task} has not started yet", task=record.task.task),
        hint=msg("Follow the log to see it as soon as it starts."),
    )
