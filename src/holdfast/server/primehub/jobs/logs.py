"""Logs as plain text, below /api/logs. Clients decode a response in pieces of 8192 bytes, so every piece that is sent
ends with a line, or at least with a whole character."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound, UserError
from holdfast.engines.base import LogSource
from holdfast.server.access_guard import guard_request, require_job_access
from holdfast.server.auth import authenticate_request, get_services
from holdfast.server.log_responses import PLAIN_TEXT
from holdfast.server.streams import StreamedResponse
from holdfast.services.errors import LogNotFound
from holdfast.services.logs.reading import Span, read_span
from holdfast.services.logs.service import Selection, TaskLog

from ..errors import NOT_FOUND, PhError, build_not_found_error

PIECE_SIZE = 8192  # bytes
MAX_LINES = 10**9


async def send_job_log(request: Request) -> Response:
    """Send the log of a job. `persist` is ignored: logs are always stored."""
    actor, id = await authenticate_request(request), request.path_params["id"]
    chosen = await _choose_task_log(request, actor, id)
    lines = _parse_line_count(request.query_params.get("tailLines"))
    if request.query_params.get("follow") == "true":
        get_services(request).logs.check_follow(chosen)
        return _stream_log(request, chosen, _follow_log(request, chosen, lines))
    source = get_services(request).logs.open_source(chosen)
    return _stream_log(request, chosen, _read_log(source, await _get_span(request, source, lines)))


async def send_notebook_log(request: Request) -> Response:
    await authenticate_request(request)
    raise PhError("Notebooks are not supported.", NOT_FOUND)


async def refuse_log(request: Request) -> Response:
    await authenticate_request(request)
    raise PhError(
        "Log not found: notebooks, image builds, apps and deployments are not supported.", "RESOURCE_NOT_FOUND"
    )


async def _choose_task_log(request: Request, actor: Actor, id: str) -> TaskLog:
    try:
        chosen = await get_services(request).logs.choose_log(actor, Selection(ref=id))
    except LogNotFound:
        raise
    except NotFound:
        raise build_not_found_error("phjobs", id) from None
    if chosen.job.id != id:
        raise build_not_found_error("phjobs", id)
    return chosen


def _parse_line_count(text: str | None) -> int | None:
    """Return the number of lines; None for all."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 18):
        raise UserError("tailLines must be an integer", field="tailLines")
    return min(int(text), MAX_LINES)


async def _get_span(request: Request, source: LogSource, lines: int | None) -> Span:
    logs = get_services(request).logs
    return await (logs.load_span(source) if lines is None else logs.get_last_lines(source, lines))


def _stream_log(request: Request, chosen: TaskLog, pieces: AsyncGenerator[bytes, None]) -> Response:
    guard = guard_request(get_services(request), request, require_job_access(chosen.job))
    return StreamedResponse(pieces, guard=guard, media_type=PLAIN_TEXT)


async def _read_log(source: LogSource, span: Span) -> AsyncGenerator[bytes, None]:
    async with aclosing(read_span(source, span)) as chunks, aclosing(split_into_pieces(chunks)) as pieces:
        async for piece in pieces:
            yield piece


async def _follow_log(request: Request, chosen: TaskLog, lines: int | None) -> AsyncGenerator[bytes, None]:
    logs = get_services(request).logs
    source = logs.find_source(chosen)
    start = 0 if source is None else (await _get_span(request, source, lines)).start
    async with (
        aclosing(logs.follow(chosen, start)) as chunks,
        aclosing(split_into_pieces(chunk async for _, chunk in chunks)) as pieces,
    ):
        async for piece in pieces:
            yield piece


async def split_into_pieces(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Split into pieces of at most PIECE_SIZE bytes. Invalid UTF-8 becomes U+FFFD, as clients decode it as text. An
    unfinished line is sent after a pause, which an empty chunk signals."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = b""
    async for chunk in chunks:
        left += decoder.decode(chunk).encode()
        while len(left) > PIECE_SIZE or (left and not chunk):
            piece, left = cut_piece(left)
            yield piece
        if b"\n" in left:
            at = left.rindex(b"\n") + 1
            yield left[:at]
            left = left[at:]
    left += decoder.decode(b"", final=True).encode()
    while left:
        piece, left = cut_piece(left)
        yield piece


def cut_piece(text: bytes) -> tuple[bytes, bytes]:
    """Return the longest possible piece, with whole lines if there is one, else whole characters; and the rest."""
    if len(text) <= PIECE_SIZE:
        return text, b""
    at = text.rfind(b"\n", 0, PIECE_SIZE) + 1
    if not at:
        at = PIECE_SIZE
        while text[at] & 0xC0 == 0x80:  # within a character
            at -= 1
    return text[:at], text[at:]
