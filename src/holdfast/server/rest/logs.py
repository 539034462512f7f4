"""/jobs/{ref}/log: read, follow, download, search."""

from __future__ import annotations

import codecs
import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.responses import Response

from holdfast.api import logs as api
from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.engines.base import LogSource
from holdfast.engines.base import LogStream as LogStream
from holdfast.services import Services
from holdfast.services.logs.reading import LogSpan
from holdfast.services.logs.search import SearchQuery
from holdfast.services.logs.service import EndState, LogSelection, TaskLog

from ..access_guard import AccessGuard, make_job_access_check, make_request_guard
from ..auth import Caller, ServicesDep
from ..log_responses import PLAIN_TEXT_TYPE, build_span_headers, respond_with_log
from ..responses import respond_json
from ..streams import StreamedResponse
from .parameters import parse_since
from .routing import build_router
from .views import format_time

router = build_router("logs")

MAX_INTEGER = 2**62
HEARTBEAT_INTERVAL = 15.0  # seconds without data after which a comment is sent
MAX_LINES = 1_000_000

_EVENT_ID_PATTERN = re.compile(r"\d{1,18}")


TASK_DESCRIPTION = "Such as worker-0; default: the task that decided the job's result, or else the first task."


def parse_selection(
    ref: str,
    task: Annotated[str | None, Query(max_length=300, description=TASK_DESCRIPTION)] = None,
    attempt: Annotated[int | None, Query(ge=0, le=MAX_INTEGER, description="Default: the newest.")] = None,
    number: Annotated[int | None, Query(alias="try", ge=0, le=MAX_INTEGER, description="Default: the newest.")] = None,
    stream: Annotated[LogStream, Query()] = LogStream.MERGED,
) -> LogSelection:
    return LogSelection(ref=ref, task=task, attempt=attempt, number=number, stream=stream)


@dataclass(frozen=True, slots=True)
class LogRange:
    """The requested bytes of a log; at most one kind of selection is set."""

    start: int | None
    count: int | None
    lines: int | None
    bytes: int | None
    since: datetime | None


def parse_log_range(
    start: Annotated[int | None, Query(ge=0, le=MAX_INTEGER, description="From this offset.")] = None,
    count: Annotated[int | None, Query(ge=0, le=MAX_INTEGER, description="Number of bytes.")] = None,
    lines: Annotated[int | None, Query(ge=0, le=MAX_LINES, description="The last N lines.")] = None,
    bytes: Annotated[int | None, Query(ge=0, le=MAX_INTEGER, description="The last N bytes.")] = None,
    since: Annotated[str | None, Query(max_length=100, description="Since a time, or in the last N seconds.")] = None,
) -> LogRange:
    ways = {"start": start if start is not None else count, "lines": lines, "bytes": bytes, "since": since}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise UserError(msg("Set only one of {names}", names=" and ".join(given)), field=given[1])
    when = parse_since(since, datetime.now(UTC)) if since is not None else None
    return LogRange(start, count, lines, bytes, when)


SelectionDep = Annotated[LogSelection, Depends(parse_selection)]
LogRangeDep = Annotated[LogRange, Depends(parse_log_range)]


@router.get("/jobs/{ref}/log", response_class=Response)
async def read_log(
    request: Request,
    selection: SelectionDep,
    part: LogRangeDep,
    actor: Caller,
    services: ServicesDep,
    follow: Annotated[bool, Query(description="Follow the log until the task has ended.")] = False,
    held: Annotated[bool, Query(description="With follow: stop also when the task is on hold.")] = False,
    download: Annotated[bool, Query(description="Send as a file attachment.")] = False,
) -> Response:
    """The bytes of a log as they were written: all of it, or a part. `Range: bytes=a-b` is supported too."""
    chosen = await services.logs.select_log(actor, selection)
    headers = {"X-Log-Task": chosen.record.task.task, "X-Log-Held": str(services.logs.is_task_held(chosen)).lower()}
    if download:
        headers["Content-Disposition"] = f'attachment; filename="{chosen.file_name}"'
    guard = make_request_guard(services, request, make_job_access_check(chosen.job))
    if follow and not request.scope.get("holdfast.head"):
        return await _follow_plain_text(services, chosen, guard, part, headers, held)
    source = services.logs.open_source(chosen)
    span = await _resolve_span(services, source, part)
    return respond_with_log(source, span, guard, request.headers.get("range", ""), headers)


@router.get("/jobs/{ref}/log/follow", response_class=Response)
async def follow_log(
    request: Request,
    selection: SelectionDep,
    actor: Caller,
    services: ServicesDep,
    start: Annotated[int, Query(ge=0, le=MAX_INTEGER, description="From this offset.")] = 0,
) -> Response:
    """Server-sent events: `log` with {"start", "end", "text"} and its end as ID, then `end` with {"state", "exit_code",
    "task_state"}. With Last-Event-ID, it continues from there. When you lose access, the last event is `refused` with
    {"code", "message", "hint"}."""
    chosen = await services.logs.select_log(actor, selection)
    services.logs.check_follow(chosen)
    last = request.headers.get("last-event-id", "")
    begin = int(last) if _EVENT_ID_PATTERN.fullmatch(last) else start
    guard = make_request_guard(services, request, make_job_access_check(chosen.job))
    events = _iter_log_events(services, chosen, begin)
    return StreamedResponse(events, guard=guard, media_type="text/event-stream", last_words=_format_refusal)


@router.get("/jobs/{ref}/log/search", response_model=api.LogHits)
async def search_log(
    request: Request,
    selection: SelectionDep,
    actor: Caller,
    services: ServicesDep,
    q: Annotated[str, Query(description="The text to search for, within a line.")],
    regex: Annotated[bool, Query(description="`q` is a regular expression in RE2 syntax.")] = False,
    ignore_case: bool = False,
    start: Annotated[int, Query(ge=0, le=MAX_INTEGER, description="From this offset.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Matching lines, at most `limit` and for at most two seconds; `next` is the offset to continue from."""
    chosen = await services.logs.select_log(actor, selection)
    question = SearchQuery(query=q, regex=regex, ignore_case=ignore_case, start=start, limit=limit)
    guard = make_request_guard(services, request, make_job_access_check(chosen.job))
    found = await guard.run_guarded(services.logs.search_log(actor, services.logs.open_source(chosen), question))
    hits = [{"offset": hit.offset, "line_offset": hit.line_offset, "text": hit.text} for hit in found.hits]
    return respond_json({"hits": hits, "next": found.next})


@router.get("/jobs/{ref}/log/times", response_model=api.LogTimes)
async def list_log_times(
    selection: SelectionDep,
    actor: Caller,
    services: ServicesDep,
    start: Annotated[int, Query(ge=0, le=MAX_INTEGER, description="From this offset.")] = 0,
    count: Annotated[int, Query(ge=0, le=MAX_INTEGER, description="Number of bytes.")] = 65536,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """When the bytes of a log were written: pieces in order, at most `limit`; `next` is the offset to continue from. A
    piece was written at `at` or shortly before, by the server's clock. Output from while the server was down has the
    time of its start; bytes without a piece have no known time."""
    chosen = await services.logs.select_log(actor, selection)
    found = await services.logs.load_write_times(services.logs.open_source(chosen), start, start + count, limit)
    pieces = [{"start": piece.start, "end": piece.end, "at": format_time(piece.at)} for piece in found.pieces]
    return respond_json({"pieces": pieces, "next": found.next})


async def _resolve_span(services: Services, source: LogSource, part: LogRange) -> LogSpan:
    if part.lines is not None:
        return await services.logs.get_last_lines(source, part.lines)
    if part.since is not None:
        return await services.logs.get_span_since(source, part.since)
    span = await services.logs.get_full_span(source)
    if part.bytes is not None:
        return replace(span, start=max(span.start, span.end - part.bytes))
    start = min(max(span.start, part.start or 0), span.end)
    end = span.end if part.count is None else min(span.end, max(start, (part.start or 0) + part.count))
    return replace(span, start=start, end=end)


async def _follow_plain_text(
    services: Services, chosen: TaskLog, guard: AccessGuard, part: LogRange, headers: dict[str, str], held: bool
) -> Response:
    services.logs.check_follow(chosen)
    source = services.logs.find_source(chosen)
    span = LogSpan(part.start or 0, part.start or 0, 0, False)
    if source is not None:
        span = await _resolve_span(services, source, part)
    pieces = services.logs.follow_log(chosen, span.start, held=held)
    response_headers = {**headers, **build_span_headers(span)}
    return StreamedResponse(_drop_offsets(pieces), guard=guard, media_type=PLAIN_TEXT_TYPE, headers=response_headers)


async def _drop_offsets(pieces: AsyncGenerator[tuple[int, bytes], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for _, data in pieces:
            if data:
                yield data


async def _iter_log_events(services: Services, chosen: TaskLog, start: int) -> AsyncGenerator[bytes, None]:
    """Characters split at the end of a piece are sent with the next one."""
    yield b"retry: 1000\n\n"
    text = LogEventEncoder(start)
    sent = time.monotonic()
    pieces = services.logs.follow_log(chosen, start)
    async with aclosing(pieces):
        async for offset, data in pieces:
            events = text.encode_chunk(offset, data)
            if events:
                yield events
                sent = time.monotonic()
            elif time.monotonic() - sent >= HEARTBEAT_INTERVAL:
                yield b": still here\n\n"
                sent = time.monotonic()
    yield text.flush_remaining_bytes() + _format_event(
        "end", _end_state_to_json(await services.logs.wait_for_end_state(chosen))
    )


class LogEventEncoder:
    """Converts bytes to `log` events of whole characters, with their offsets."""

    def __init__(self, start: int) -> None:
        self._offset = start  # offset of the first unsent byte
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def encode_chunk(self, offset: int, data: bytes) -> bytes:
        if not data:
            return b""
        events = b""
        held = len(self._decoder.getstate()[0])
        if offset != self._offset + held:  # older bytes were deleted in the meantime
            events = self.flush_remaining_bytes()
            self._offset, held = offset, 0
        shown = self._decoder.decode(data)
        end = offset + len(data) - len(self._decoder.getstate()[0])
        return events + self._emit_event(shown, end)

    def flush_remaining_bytes(self) -> bytes:
        """Return the rest of an incomplete character."""
        held = len(self._decoder.getstate()[0])
        shown = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return self._emit_event(shown, self._offset + held)

    def _emit_event(self, text: str, end: int) -> bytes:
        if not text:
            return b""
        event = _format_event("log", {"start": self._offset, "end": end, "text": text}, id=end)
        self._offset = end
        return event


def _format_event(name: str, data: dict[str, Any], id: int | None = None) -> bytes:
    head = f"id: {id}\n" if id is not None else ""
    return f"event: {name}\n{head}data: {json.dumps(data)}\n\n".encode("ascii")


def _format_refusal(error: UserError) -> bytes:
    return _format_event("refused", {"code": error.code, "message": error.message, "hint": error.hint})


def _end_state_to_json(ended: EndState) -> dict[str, Any]:
    return {"state": ended.job_state.value, "exit_code": ended.exit_code, "task_state": ended.task_state.value}
