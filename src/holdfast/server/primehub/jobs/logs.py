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
from holdfast.server.access_guard import make_job_access_check, make_request_guard
from holdfast.server.auth import authenticate_request, get_services
from holdfast.server.log_responses import PLAIN_TEXT_TYPE
from holdfast.server.streams import StreamedResponse
from holdfast.services.errors import LogNotFound
from holdfast.services.logs.reading import LogSpan, iter_span_chunks
from holdfast.services.logs.service import LogSelection, TaskLog

from ..errors import NOT_FOUND_CODE, PrimeHubError, build_resource_not_found_error

CLIENT_CHUNK_SIZE = 8192  # bytes
MAX_TAIL_LINES = 10**9


async def send_job_log(request: Request) -> Response:
    """Send the log of a job. `persist` is ignored: logs are always stored."""
    actor, id = await authenticate_request(request), request.path_params["id"]
    chosen = await _choose_task_log(request, actor, id)
    lines = _parse_line_count(request.query_params.get("tailLines"))
    if request.query_params.get("follow") == "true":
        get_services(request).logs.check_follow(chosen)
        return _stream_log(request, chosen, _follow_log(request, chosen, lines))
    source = get_services(request).logs.open_source(chosen)
    return _stream_log(request, chosen, _iter_log_chunks(source, await _load_span(request, source, lines)))


async def reject_notebook_log(request: Request) -> Response:
    await authenticate_request(request)
    raise PrimeHubError("Notebooks are not supported.", NOT_FOUND_CODE)


async def reject_unsupported_log(request: Request) -> Response:
    await authenticate_request(request)
    raise PrimeHubError(
        "Log not found: notebooks, image builds, apps and deployments are not supported.", "RESOURCE_NOT_FOUND"
    )


async def _choose_task_log(request: Request, actor: Actor, id: str) -> TaskLog:
    try:
        chosen = await get_services(request).logs.select_log(actor, LogSelection(ref=id))
    except LogNotFound:
        raise
    except NotFound:
        raise build_resource_not_found_error("phjobs", id) from None
    if chosen.job.id != id:
        raise build_resource_not_found_error("phjobs", id)
    return chosen


def _parse_line_count(text: str | None) -> int | None:
    """Return the number of lines; None for all."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 18):
        raise UserError("tailLines must be an integer", field="tailLines")
    return min(int(text), MAX_TAIL_LINES)


async def _load_span(request: Request, source: LogSource, lines: int | None) -> LogSpan:
    logs = get_services(request).logs
    return await (logs.get_full_span(source) if lines is None else logs.get_last_lines(source, lines))


def _stream_log(request: Request, chosen: TaskLog, pieces: AsyncGenerator[bytes, None]) -> Response:
    guard = make_request_guard(get_services(request), request, make_job_access_check(chosen.job))
    return StreamedResponse(pieces, guard=guard, media_type=PLAIN_TEXT_TYPE)


async def _iter_log_chunks(source: LogSource, span: LogSpan) -> AsyncGenerator[bytes, None]:
    async with aclosing(iter_span_chunks(source, span)) as chunks, aclosing(split_into_client_chunks(chunks)) as pieces:
        async for piece in pieces:
            yield piece


async def _follow_log(request: Request, chosen: TaskLog, lines: int | None) -> AsyncGenerator[bytes, None]:
    logs = get_services(request).logs
    source = logs.find_source(chosen)
    start = 0 if source is None else (await _load_span(request, source, lines)).start
    async with (
        aclosing(logs.follow_log(chosen, start)) as chunks,
        aclosing(split_into_client_chunks(chunk async for _, chunk in chunks)) as pieces,
    ):
        async for piece in pieces:
            yield piece


async def split_into_client_chunks(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Split into pieces of at most PIECE_SIZE bytes. Invalid UTF-8 becomes U+FFFD, as clients decode it as text. An
    unfinished line is sent after a pause, which an empty chunk signals."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = b""
    async for chunk in chunks:
        left += decoder.decode(chunk).encode()
        while len(left) > CLIENT_CHUNK_SIZE or (left and not chunk):
            piece, left = split_first_chunk(left)
            yield piece
        if b"\n" in left:
            at = left.rindex(b"\n") + 1
            yield left[:at]
            left = left[at:]
    left += decoder.decode(b"", final=True).encode()
    while left:
        piece, left = split_first_chunk(left)
        yield piece


def split_first_chunk(text: bytes) -> tuple[bytes, bytes]:
    """Return the longest possible piece, with whole lines if there is one, else whole characters; and the rest."""
    if len(text) <= CLIENT_CHUNK_SIZE:
        return text, b""
    at = text.rfind(b"\n", 0, CLIENT_CHUNK_SIZE) + 1
    if not at:
        at = CLIENT_CHUNK_SIZE
        while text[at] & 0xC0 == 0x80:  # within a character
            at -= 1
    return text[:at], text[at:]
