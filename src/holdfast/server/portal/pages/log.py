"""The log view: a section of the job's page, and a separate page. `log_live` and scripts/log.js update it.

view = await load_log_view(visit, ref)  # templates/log/_view.html shows it as `page.log`
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from holdfast.core.errors import Expired, NotFound
from holdfast.core.job import Job
from holdfast.core.records import JobSummary, TaskRecord
from holdfast.engines.base import LogSource, LogStream
from holdfast.services.errors import LogNotFound
from holdfast.services.logs.first_error import FIRST_ERROR_PATTERN
from holdfast.services.logs.reading import LogSpan
from holdfast.services.logs.service import LogSelection, TaskLog

from ..jobs.log_text import render_log_text
from ..routes import build_page_route
from ..visit import Visit

MAX_LINES = 2000
MAX_BYTES = 512 * 1024  # of these lines
MAX_LISTED_TASKS = 500  # in a list; with more, the name is typed
MAX_LISTED_TRIES = 100
MAX_OFFSET = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The shown part of one log of one try of a task."""

    job: JobSummary
    stream: LogStream
    own_page: bool = False  # a separate page, not within the job's page
    task: str = ""
    attempt: int = 0
    number: int = 0  # which try of the task within the attempt
    state: str = ""  # of this try
    attempt_id: str = ""
    tasks: tuple[str, ...] = ()  # choices; empty if there are too many to list
    attempts: tuple[int, ...] = ()
    tries: tuple[int, ...] = ()  # of the chosen attempt
    newest: bool = True  # there is no later try of this task
    text: str = ""
    start: int = 0  # the bytes that `text` shows
    end: int = 0
    first: int = 0  # the oldest stored byte
    size: int = 0
    complete: bool = False  # the log has ended
    waiting: bool = False  # not started yet
    exit_code: int | None = None
    problem: str = ""  # why there is nothing to read
    expired_at: datetime | None = None
    error_pattern: str = FIRST_ERROR_PATTERN

    @property
    def at_end(self) -> bool:
        return self.end >= self.size

    @property
    def has_older(self) -> bool:
        return self.start > self.first

    @property
    def base_address(self) -> str:
        """The path of the form with choices."""
        return f"/jobs/{self.job.id}/log" if self.own_page else f"/jobs/{self.job.id}"

    def build_address(self, **other: Any) -> str:
        """Return the URL of this page with other options."""
        return f"{self.base_address}?{self._build_query(**other)}{'' if self.own_page else '#log'}"

    def build_standalone_address(self, **other: Any) -> str:
        return f"/jobs/{self.job.id}/log?{self._build_query(**other)}"

    @property
    def data_address(self) -> str:
        """The URL of the log in the REST API."""
        return f"/api/v1/jobs/{self.job.id}/log?{self._build_query()}"

    def _build_query(self, **other: Any) -> str:
        parameters = {
            "task": self.task,
            "attempt": self.attempt,
            "try": self.number,
            "stream": self.stream.value,
            **other,
        }
        return urlencode({name: value for name, value in parameters.items() if value not in (None, "")})


def parse_log_options(query: Mapping[str, str]) -> dict[str, Any]:
    """Parse the options of the URL; invalid ones are ignored."""
    stream = query.get("stream", "")
    return {
        "task": query.get("task", "")[:300] or None,
        "attempt": parse_query_number(query, "attempt"),
        "number": parse_query_number(query, "try"),
        "stream": LogStream(stream) if stream in set(LogStream) else LogStream.MERGED,
    }


def parse_query_number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return min(int(text), MAX_OFFSET) if text.isascii() and text.isdigit() and len(text) < 20 else None


async def load_log_view(visit: Visit, ref: str) -> LogView | None:
    """Load the newest lines. None if the task or try does not exist; NotFound if the job does not."""
    try:
        return await _load_selected_view(visit, LogSelection(ref=ref, **parse_log_options(visit.query)))
    except NotFound:
        await visit.services.jobs.load_detail(visit.current_actor, ref)
        return None


async def _load_selected_view(
    visit: Visit, selection: LogSelection, start: int | None = None, end: int | None = None, *, own_page: bool = False
) -> LogView:
    """Build the view of the newest lines, or of those from `start` or up to `end`."""
    logs = visit.services.logs
    record = await visit.services.jobs.load_detail(visit.current_actor, selection.ref)
    bare = LogView(job=record.summary, stream=selection.stream, own_page=own_page)
    try:
        chosen = await logs.select_log(visit.current_actor, replace(selection, ref=record.summary.id))
    except LogNotFound as error:
        return replace(bare, problem=visit.translate_message(error.message), complete=True)
    view = replace(_add_selection(bare, chosen, await logs.list_tries(chosen)), tasks=_list_task_names(record.job))
    try:
        return await _add_lines(visit, view, logs.open_source(chosen), start, end)
    except Expired as error:
        expired_at = chosen.record.logs_removed_at
        return replace(view, problem=visit.translate_message(error.message), expired_at=expired_at, complete=True)
    except LogNotFound as error:
        waiting = not chosen.record.task.state.ended
        return replace(view, problem=visit.translate_message(error.message), waiting=waiting, complete=not waiting)


def _list_task_names(job: Job) -> tuple[str, ...]:
    if sum(role.instances for role in job.roles) > MAX_LISTED_TASKS:
        return ()
    return tuple(f"{role.name}-{index}" for role in job.roles for index in range(role.instances))


def _add_selection(view: LogView, chosen: TaskLog, tries: tuple[TaskRecord, ...]) -> LogView:
    this = chosen.record
    known = {(record.attempt, record.task.number) for record in tries[-MAX_LISTED_TRIES:]} | {
        (this.attempt, this.task.number)
    }
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


async def _add_lines(visit: Visit, view: LogView, source: LogSource, start: int | None, end: int | None) -> LogView:
    logs = visit.services.logs
    stored = await logs.get_full_span(source)
    if start is not None and stored.start <= start < stored.end:
        span = await logs.get_span_head(source, replace(stored, start=start), MAX_LINES, MAX_BYTES)
    else:
        end = stored.end if end is None else min(max(end, stored.start), stored.end)
        span = await logs.get_span_tail(source, replace(stored, end=end), MAX_LINES, MAX_BYTES)
    data = await read_log_bytes(source, span)
    return replace(
        view,
        text=await asyncio.to_thread(render_log_text, data),  # rendering untrusted output can be slow
        start=span.start,
        end=span.start + len(data),
        first=stored.start,
        size=stored.size,
        complete=stored.complete,
    )


async def read_log_bytes(source: LogSource, span: LogSpan) -> bytes:
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
    """Show the page. A script that reloads gets only the state of the job: the log has its own WebSocket."""
    query = visit.query
    selection = LogSelection(ref=visit.path_params["ref"], **parse_log_options(query))
    if visit.wants_part:
        job = (await visit.services.jobs.load_detail(visit.current_actor, selection.ref)).summary
        return await visit.render_response("log/_head.html", LogPage(log=LogView(job=job, stream=selection.stream)))
    start, end = parse_query_number(query, "start"), parse_query_number(query, "end")
    view = await _load_selected_view(visit, selection, start, end, own_page=True)
    return await visit.render_response("log/detail.html", LogPage(log=view))


routes = [build_page_route("/jobs/{ref}/log", show_log)]
