"""Logs as plain text, below /api/logs. Clients take an answer apart every 8192 bytes and read each piece by itself, so
every piece that is sent ends with a line, or at least with a whole character."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound, UserError
from holdfast.engines.base import LogSource
from holdfast.server.access_guard import guard_request, require_job
from holdfast.server.auth import actor_of, services_of
from holdfast.server.log_bytes import PLAIN
from holdfast.server.streams import Stream
from holdfast.services.logs.reading import Span, read_span
from holdfast.services.logs.service import Chosen, Selection
from holdfast.services.refusals import NoLog

from ..errors import NOT_FOUND, PhError, not_found

PIECE = 8192  # bytes
MAX_LINES = 10**9


async def send_job_log(request: Request) -> Response:
    """`persist` makes no difference: logs are kept here as they are written."""
    actor, id = await actor_of(request), request.path_params["id"]
    chosen = await _choose(request, actor, id)
    lines = _lines(request.query_params.get("tailLines"))
    if request.query_params.get("follow") == "true":
        services_of(request).logs.check_follow(chosen)
        return _send(request, chosen, _follow(request, chosen, lines))
    source = services_of(request).logs.source(chosen)
    return _send(request, chosen, _read(source, await _span(request, source, lines)))


async def send_notebook_log(request: Request) -> Response:
    await actor_of(request)
    raise PhError("There are no notebooks here, so there is no log of one.", NOT_FOUND)


async def refuse_log(request: Request) -> Response:
    await actor_of(request)
    raise PhError(
        "There is no log at this address: no notebooks, images, apps or deployments run here.", "RESOURCE_NOT_FOUND"
    )


async def _choose(request: Request, actor: Actor, id: str) -> Chosen:
    try:
        chosen = await services_of(request).logs.choose(actor, Selection(ref=id))
    except NoLog:
        raise
    except NotFound:
        raise not_found("phjobs", id) from None
    if chosen.job.id != id:
        raise not_found("phjobs", id)
    return chosen


def _lines(text: str | None) -> int | None:
    """None: all of them."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 18):
        raise UserError("tailLines is a whole number", field="tailLines")
    return min(int(text), MAX_LINES)


async def _span(request: Request, source: LogSource, lines: int | None) -> Span:
    logs = services_of(request).logs
    return await (logs.span(source) if lines is None else logs.last_lines(source, lines))


def _send(request: Request, chosen: Chosen, pieces: AsyncGenerator[bytes, None]) -> Response:
    guard = guard_request(services_of(request), request, require_job(chosen.job))
    return Stream(pieces, guard=guard, media_type=PLAIN)


async def _read(source: LogSource, span: Span) -> AsyncGenerator[bytes, None]:
    async with aclosing(read_span(source, span)) as chunks, aclosing(in_pieces(chunks)) as pieces:
        async for piece in pieces:
            yield piece


async def _follow(request: Request, chosen: Chosen, lines: int | None) -> AsyncGenerator[bytes, None]:
    logs = services_of(request).logs
    source = logs.source_if_any(chosen)
    start = 0 if source is None else (await _span(request, source, lines)).start
    async with (
        aclosing(logs.follow(chosen, start)) as chunks,
        aclosing(in_pieces(chunk async for _, chunk in chunks)) as pieces,
    ):
        async for piece in pieces:
            yield piece


async def in_pieces(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The same text in pieces of at most PIECE bytes. Bytes that are no UTF-8 become U+FFFD, for clients take it for
    text. An unfinished line is sent once nothing more comes for a while, which an empty chunk tells."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = b""
    async for chunk in chunks:
        left += decoder.decode(chunk).encode()
        while len(left) > PIECE or (left and not chunk):
            piece, left = cut(left)
            yield piece
        if b"\n" in left:
            at = left.rindex(b"\n") + 1
            yield left[:at]
            left = left[at:]
    left += decoder.decode(b"", final=True).encode()
    while left:
        piece, left = cut(left)
        yield piece


def cut(text: bytes) -> tuple[bytes, bytes]:
    """A piece, as long as it may be: whole lines if there is one, else whole characters; and what is left."""
    if len(text) <= PIECE:
        return text, b""
    at = text.rfind(b"\n", 0, PIECE) + 1
    if not at:
        at = PIECE
        while text[at] & 0xC0 == 0x80:  # within a character
            at -= 1
    return text[:at], text[at:]
