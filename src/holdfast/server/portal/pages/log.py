"""The log view: a section of the job's page, and a page of its own. Live in `log_live`; scripts/log.js does the rest.

view = await log_view(visit, ref, **asked(visit))      # templates/log/_view.html shows it as `page.log`
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.responses import Response

from holdfast.core.errors import Expired, NotFound
from holdfast.core.job import Job
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.engines.base import LogSource, Stream
from holdfast.services.logs.first_error import FIRST_ERROR
from holdfast.services.logs.reading import Span
from holdfast.services.logs.service import Chosen, Selection
from holdfast.services.refusals import NoLog

from ..jobs.log_text import readable
from ..routes import page
from ..visit import Visit

LINES = 2000
MAX_BYTES = 512 * 1024  # of them
MAX_TASKS = 500  # in a list to choose from; with more, their name is typed
MAX_TRIES = 100
BIG = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """One log of one try of one task, as far as a page shows it."""

    job: JobSummary
    stream: Stream
    own_page: bool = False  # shown by itself, not within the job's page
    task: str = ""
    attempt: int = 0
    number: int = 0  # which try of the task within the attempt
    state: str = ""  # of this try
    attempt_id: str = ""
    tasks: tuple[str, ...] = ()  # to choose from; empty when there are too many to list
    attempts: tuple[int, ...] = ()
    tries: tuple[int, ...] = ()  # of the chosen attempt
    newest: bool = True  # there is no later try of this task
    text: str = ""
    start: int = 0  # the bytes that `text` shows
    end: int = 0
    first: int = 0  # the oldest byte that is kept
    size: int = 0
    complete: bool = False  # no more will come
    waiting: bool = False  # it has not started; it may yet
    exit_code: int | None = None
    problem: str = ""  # why there is nothing to read
    expired_at: datetime | None = None
    error_pattern: str = FIRST_ERROR

    @property
    def at_end(self) -> bool:
        return self.end >= self.size

    @property
    def has_older(self) -> bool:
        return self.start > self.first

    @property
    def place(self) -> str:
        """Where choices made here lead."""
        return f"/jobs/{self.job.id}/log" if self.own_page else f"/jobs/{self.job.id}"

    def address(self, **other: Any) -> str:
        """This view with something chosen differently, on the page it is shown on."""
        return f"{self.place}?{self._query(**other)}{'' if self.own_page else '#log'}"

    def own(self, **other: Any) -> str:
        return f"/jobs/{self.job.id}/log?{self._query(**other)}"

    @property
    def data(self) -> str:
        """The bytes, by the REST interface."""
        return f"/api/v1/jobs/{self.job.id}/log?{self._query()}"

    def _query(self, **other: Any) -> str:
        said = {"task": self.task, "attempt": self.attempt, "try": self.number, "stream": self.stream.value, **other}
        return urlencode({name: value for name, value in said.items() if value not in (None, "")})


def asked(visit: Visit) -> dict[str, Any]:
    """What the address says about which log to show; nonsense in it is left aside."""
    query = visit.request.query_params
    stream = query.get("stream", "")
    return {
        "task": query.get("task", "")[:300] or None,
        "attempt": _number(query, "attempt"),
        "number": _number(query, "try"),
        "stream": Stream(stream) if stream in set(Stream) else Stream.MERGED,
    }


async def log_view(
    visit: Visit,
    ref: str,
    *,
    task: str | None = None,
    attempt: int | None = None,
    number: int | None = None,
    stream: Stream = Stream.MERGED,
) -> LogView | None:
    """The newest lines. None when there is no such task or try; NotFound when there is no such job."""
    try:
        return await _view(visit, Selection(ref=ref, task=task, attempt=attempt, number=number, stream=stream))
    except NotFound:
        await visit.services.jobs.record(visit.who, ref)
        return None


async def _view(
    visit: Visit, selection: Selection, start: int | None = None, end: int | None = None, *, own_page: bool = False
) -> LogView:
    """`start` or `end`: not the newest lines, but those from there, or up to there."""
    logs = visit.services.logs
    record = await visit.services.jobs.record(visit.who, selection.ref)
    bare = LogView(job=record.summary, stream=selection.stream, own_page=own_page)
    try:
        chosen = await logs.choose(visit.who, replace(selection, ref=record.summary.id))
    except NoLog as error:
        return replace(bare, problem=visit.tell(error.message), complete=True)
    view = replace(_about(bare, chosen, await logs.tries(chosen)), tasks=_task_names(record.job))
    try:
        return await _read(visit, view, logs.source(chosen), start, end)
    except Expired as error:
        gone = chosen.record.logs_removed_at
        return replace(view, problem=visit.tell(error.message), expired_at=gone, complete=True)
    except NoLog as error:
        waiting = not chosen.record.task.state.ended
        return replace(view, problem=visit.tell(error.message), waiting=waiting, complete=not waiting)


def _task_names(job: Job) -> tuple[str, ...]:
    if sum(role.instances for role in job.roles) > MAX_TASKS:
        return ()
    return tuple(f"{role.name}-{index}" for role in job.roles for index in range(role.instances))


def _about(view: LogView, chosen: Chosen, tries: tuple[TaskRecord, ...]) -> LogView:
    this = chosen.record
    known = {(record.attempt, record.task.number) for record in tries[-MAX_TRIES:]} | {(this.attempt, this.task.number)}
    return replace(
        view,
        task=this.task.task,
        attempt=this.attempt,
        number=this.task.number,
        state=this.task.state.value,
        exit_code=this.task.exit.code if this.task.exit else None,
        attempt_id=this.attempt_id,
        attempts=tuple(sorted({attempt for attempt, _ in known}, reverse=True)),
        tries=tuple(sorted((number for attempt, number in known if attempt == this.attempt), reverse=True)),
        newest=(this.attempt, this.task.number) == max(known),
    )


async def _read(visit: Visit, view: LogView, source: LogSource, start: int | None, end: int | None) -> LogView:
    logs = visit.services.logs
    whole = await logs.span(source)
    if start is not None and whole.start <= start < whole.end:
        span = await logs.next_lines(source, replace(whole, start=start), LINES, MAX_BYTES)
    else:
        upto = whole.end if end is None else min(max(end, whole.start), whole.end)
        span = await logs.lines_before(source, replace(whole, end=upto), LINES, MAX_BYTES)
    data = await read_span(source, span)
    return replace(
        view,
        text=await asyncio.to_thread(readable, data),  # a job prints whatever it likes: some of it takes long
        start=span.start,
        end=span.start + len(data),
        first=whole.start,
        size=whole.size,
        complete=whole.complete,
    )


async def read_span(source: LogSource, span: Span) -> bytes:
    data = b""
    while len(data) < span.end - span.start:
        more = await source.read(span.start + len(data), span.end - span.start - len(data))
        if not more:
            break
        data += more
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    log: LogView


async def show_log(visit: Visit) -> Response:
    """A script that looks again is told of the job alone: the log is live by itself."""
    query = visit.request.query_params
    selection = Selection(ref=visit.request.path_params["ref"], **asked(visit))
    if visit.wants_part:
        job = (await visit.services.jobs.record(visit.who, selection.ref)).summary
        return await visit.show("log/_head.html", LogPage(log=LogView(job=job, stream=selection.stream)))
    view = await _view(visit, selection, _number(query, "start"), _number(query, "end"), own_page=True)
    return await visit.show("log/detail.html", LogPage(log=view))


def _number(query: QueryParams, name: str) -> int | None:
    text = query.get(name, "")
    return min(int(text), BIG) if text.isascii() and text.isdigit() and len(text) < 20 else None


routes = [page("/jobs/{ref}/log", show_log)]
