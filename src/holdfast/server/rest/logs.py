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
from holdfast.engines.base import Stream as LogStream
from holdfast.services import Services
from holdfast.services.logs.reading import Span
from holdfast.services.logs.search import Question
from holdfast.services.logs.service import Chosen, Ended, Selection

from ..access_guard import AccessGuard, guard_request, require_job
from ..answers import answer
from ..auth import Ask, Caller
from ..log_bytes import PLAIN, answer_log, describe_span
from ..streams import Stream
from .addresses import rest_router
from .parameters import parse_since
from .views import show_time

router = rest_router("logs")

BIG = 2**62
HEARTBEAT = 15.0  # seconds of silence after which a comment is sent
MAX_LINES = 1_000_000

_DIGITS = re.compile(r"\d{1,18}")


TASK = "worker-0; left out: the task that decided how the job ended, or the first while none has."


def select(
    ref: str,
    task: Annotated[str | None, Query(max_length=300, description=TASK)] = None,
    attempt: Annotated[int | None, Query(ge=0, le=BIG, description="Left out: the newest.")] = None,
    number: Annotated[int | None, Query(alias="try", ge=0, le=BIG, description="Left out: the newest.")] = None,
    stream: Annotated[LogStream, Query()] = LogStream.MERGED,
) -> Selection:
    return Selection(ref=ref, task=task, attempt=attempt, number=number, stream=stream)


@dataclass(frozen=True, slots=True)
class Part:
    """Which bytes of a log are asked for; at most one way to say it."""

    start: int | None
    count: int | None
    lines: int | None
    bytes: int | None
    since: datetime | None


def choose_part(
    start: Annotated[int | None, Query(ge=0, le=BIG, description="From this offset.")] = None,
    count: Annotated[int | None, Query(ge=0, le=BIG, description="So many bytes.")] = None,
    lines: Annotated[int | None, Query(ge=0, le=MAX_LINES, description="The last so many lines.")] = None,
    bytes: Annotated[int | None, Query(ge=0, le=BIG, description="The last so many bytes.")] = None,
    since: Annotated[
        str | None, Query(max_length=100, description="What came since a time, or in the last so many seconds.")
    ] = None,
) -> Part:
    ways = {"start": start if start is not None else count, "lines": lines, "bytes": bytes, "since": since}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise UserError(msg("Give one of {given}, not both", given=" and ".join(given)), field=given[1])
    when = parse_since(since, datetime.now(UTC)) if since is not None else None
    return Part(start, count, lines, bytes, when)


Selected = Annotated[Selection, Depends(select)]
Wanted = Annotated[Part, Depends(choose_part)]


@router.get("/jobs/{ref}/log", response_class=Response)
async def read_log(
    request: Request,
    selection: Selected,
    part: Wanted,
    actor: Caller,
    services: Ask,
    follow: Annotated[bool, Query(description="Go on until the task has ended.")] = False,
    held: Annotated[bool, Query(description="With follow: only until it has ended or is held.")] = False,
    download: Annotated[bool, Query(description="As a file to save.")] = False,
) -> Response:
    """The bytes of a log as they were written: all of it, or a part. `Range: bytes=a-b` works too."""
    chosen = await services.logs.choose(actor, selection)
    headers = {"X-Log-Task": chosen.record.task.task, "X-Log-Held": str(services.logs.is_held(chosen)).lower()}
    if download:
        headers["Content-Disposition"] = f'attachment; filename="{chosen.file_name}"'
    guard = guard_request(services, request, require_job(chosen.job))
    if follow and not request.scope.get("holdfast.head"):
        return await _follow_plain(services, chosen, guard, part, headers, held)
    source = services.logs.source(chosen)
    span = await _span(services, source, part)
    return answer_log(source, span, guard, request.headers.get("range", ""), headers)


@router.get("/jobs/{ref}/log/follow", response_class=Response)
async def follow_log(
    request: Request,
    selection: Selected,
    actor: Caller,
    services: Ask,
    start: Annotated[int, Query(ge=0, le=BIG, description="From this offset.")] = 0,
) -> Response:
    """Server-sent events: `log` with {"start", "end", "text"} and its end as id, then `end` with {"state",
    "exit_code", "task_state"}. Sent again with Last-Event-ID, it goes on from there. When the reader loses access, the
    last event is `refused` with {"code", "message", "hint"}."""
    chosen = await services.logs.choose(actor, selection)
    services.logs.check_follow(chosen)
    last = request.headers.get("last-event-id", "")
    begin = int(last) if _DIGITS.fullmatch(last) else start
    guard = guard_request(services, request, require_job(chosen.job))
    events = _events(services, chosen, begin)
    return Stream(events, guard=guard, media_type="text/event-stream", last_words=_refused)


@router.get("/jobs/{ref}/log/search", response_model=api.LogHits)
async def search_log(
    request: Request,
    selection: Selected,
    actor: Caller,
    services: Ask,
    q: Annotated[str, Query(description="What to look for, within a line.")],
    regex: Annotated[bool, Query(description="`q` is a regular expression in RE2 syntax.")] = False,
    ignore_case: bool = False,
    start: Annotated[int, Query(ge=0, le=BIG, description="From this offset.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Lines that match, at most `limit` and for at most two seconds; `next` is where to go on."""
    chosen = await services.logs.choose(actor, selection)
    question = Question(query=q, regex=regex, ignore_case=ignore_case, start=start, limit=limit)
    guard = guard_request(services, request, require_job(chosen.job))
    found = await guard.run(services.logs.search(actor, services.logs.source(chosen), question))
    hits = [{"offset": hit.offset, "line_offset": hit.line_offset, "text": hit.text} for hit in found.hits]
    return answer({"hits": hits, "next": found.next})


@router.get("/jobs/{ref}/log/times", response_model=api.LogTimes)
async def log_times(
    selection: Selected,
    actor: Caller,
    services: Ask,
    start: Annotated[int, Query(ge=0, le=BIG, description="From this offset.")] = 0,
    count: Annotated[int, Query(ge=0, le=BIG, description="For so many bytes.")] = 65536,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """When the bytes of a log were written: pieces in order, at most `limit`; `next` is where to go on. A piece was
    written at `at` or shortly before, by the server's clock. What came while no server ran is told as of its start;
    what no piece tells is unknown."""
    chosen = await services.logs.choose(actor, selection)
    found = await services.logs.times(services.logs.source(chosen), start, start + count, limit)
    pieces = [{"start": piece.start, "end": piece.end, "at": show_time(piece.at)} for piece in found.pieces]
    return answer({"pieces": pieces, "next": found.next})


async def _span(services: Services, source: LogSource, part: Part) -> Span:
    if part.lines is not None:
        return await services.logs.last_lines(source, part.lines)
    if part.since is not None:
        return await services.logs.since(source, part.since)
    span = await services.logs.span(source)
    if part.bytes is not None:
        return replace(span, start=max(span.start, span.end - part.bytes))
    start = min(max(span.start, part.start or 0), span.end)
    end = span.end if part.count is None else min(span.end, max(start, (part.start or 0) + part.count))
    return replace(span, start=start, end=end)


async def _follow_plain(
    services: Services, chosen: Chosen, guard: AccessGuard, part: Part, headers: dict[str, str], held: bool
) -> Response:
    services.logs.check_follow(chosen)
    source = services.logs.source_if_any(chosen)
    span = Span(part.start or 0, part.start or 0, 0, False)
    if source is not None:
        span = await _span(services, source, part)
    pieces = services.logs.follow(chosen, span.start, held=held)
    told = {**headers, **describe_span(span)}
    return Stream(_bytes_only(pieces), guard=guard, media_type=PLAIN, headers=told)


async def _bytes_only(pieces: AsyncGenerator[tuple[int, bytes], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for _, data in pieces:
            if data:
                yield data


async def _events(services: Services, chosen: Chosen, start: int) -> AsyncGenerator[bytes, None]:
    """Characters cut in two at the end of a piece are sent with the next one."""
    yield b"retry: 1000\n\n"
    text = Characters(start)
    sent = time.monotonic()
    pieces = services.logs.follow(chosen, start)
    async with aclosing(pieces):
        async for offset, data in pieces:
            events = text.take(offset, data)
            if events:
                yield events
                sent = time.monotonic()
            elif time.monotonic() - sent >= HEARTBEAT:
                yield b": still here\n\n"
                sent = time.monotonic()
    yield text.finish() + _event("end", _show_end(await services.logs.end(chosen)))


class Characters:
    """Bytes -> `log` events of whole characters, with their offsets."""

    def __init__(self, start: int) -> None:
        self._at = start  # offset of the first byte not sent
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, offset: int, data: bytes) -> bytes:
        if not data:
            return b""
        events = b""
        held = len(self._decoder.getstate()[0])
        if offset != self._at + held:  # older bytes were dropped meanwhile
            events = self.finish()
            self._at, held = offset, 0
        shown = self._decoder.decode(data)
        end = offset + len(data) - len(self._decoder.getstate()[0])
        return events + self._emit(shown, end)

    def finish(self) -> bytes:
        """What is left of a character that never was completed."""
        held = len(self._decoder.getstate()[0])
        shown = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return self._emit(shown, self._at + held)

    def _emit(self, text: str, end: int) -> bytes:
        if not text:
            return b""
        event = _event("log", {"start": self._at, "end": end, "text": text}, id=end)
        self._at = end
        return event


def _event(name: str, data: dict[str, Any], id: int | None = None) -> bytes:
    head = f"id: {id}\n" if id is not None else ""
    return f"event: {name}\n{head}data: {json.dumps(data)}\n\n".encode("ascii")


def _refused(error: UserError) -> bytes:
    return _event("refused", {"code": error.code, "message": error.message, "hint": error.hint})


def _show_end(ended: Ended) -> dict[str, Any]:
    return {
        "state": ended.job_state.value,
        "exit_code": ended.exit_code,
        "task_state": ended.task_state.value,
    }
