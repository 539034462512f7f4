"""/log-manager: the logs behind the addresses that lists of logs give out. The token in them is all it takes."""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import Expired, Forbidden, NotFound, UserError
from holdfast.engines.base import LogSource
from holdfast.server.access_guard import AccessGuard, require_job
from holdfast.server.auth import services_of
from holdfast.server.log_bytes import answer_log
from holdfast.server.streams import Stream
from holdfast.services.logs.reading import Span, read_span
from holdfast.services.logs.service import Chosen, LinkedLog

from ..errors import PaiError, answer_error, no_api, render, say
from .log_links import STREAMS
from .task_logs import NO_LOG, no_log

TAIL = 16384  # bytes
OLD_TAIL = 4096  # bytes, of a page whose start nobody gave

_NUMBER = re.compile(r"-?\d{1,18}")
_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]

Handler = Callable[[Request], Awaitable[Response]]


def log_routes() -> list[Route]:
    return [
        Route("/log-manager/pages/{link}/{file}", _answering(show_page)),
        Route("/log-manager/pages/{link}/{file}/", _answering(show_page)),
        Route("/log-manager/{machine}/api/v1/logs/{file}", _answering(send_log)),
        Route("/log-manager/{path:path}", _answering(refuse), methods=_ALL_METHODS),
    ]


async def send_log(request: Request) -> Response:
    """The whole log as a file, or its end with tail-mode."""
    linked = await _open(request, "user-", request.query_params.get("token", ""))
    chosen, guard = linked.chosen, _guard(request, linked)
    source, span = await _source(request, chosen)
    asked = request.headers.get("range", "")
    if "true" not in (request.query_params.get("tail-mode"), request.query_params.get("tailMode")):
        headers = {"Content-Disposition": f'attachment; filename="{chosen.file_name}"'}
        return answer_log(source, span, guard, asked, headers)
    end = replace(span, start=max(span.start, span.end - TAIL))
    return answer_log(source, end, guard, asked, {}, partial=end.start < end.end)


async def show_page(request: Request) -> Response:
    """The log within a page, from `start` on; below 0 it counts from the end."""
    linked = await _open(request, "user.pai.", request.path_params["link"])
    chosen, guard = linked.chosen, _guard(request, linked)
    source, span = await _source(request, chosen)
    title = html.escape(f"{request.path_params['file']} of {chosen.record.task.task}")
    begun = replace(span, start=_start(span, request.query_params.get("start", "")))
    return Stream(_page(title, source, begun), guard=guard, media_type="text/html; charset=utf-8")


async def refuse(request: Request) -> Response:
    raise no_api(request.url.path)


async def _open(request: Request, prefix: str, link: str) -> LinkedLog:
    start, found, stream = request.path_params["file"].partition(prefix)
    if start or not found or stream not in STREAMS:
        raise no_log()
    return await services_of(request).logs.linked(link, STREAMS[stream])


def _guard(request: Request, linked: LinkedLog) -> AccessGuard:
    """For as long as the maker of the link may read the log."""
    services = services_of(request)
    return AccessGuard(
        services.tokens, lambda: services.logs.link_maker(linked.token_id), require_job(linked.chosen.job)
    )


async def _source(request: Request, chosen: Chosen) -> tuple[LogSource, Span]:
    logs = services_of(request).logs
    source = logs.source(chosen)
    return source, await logs.span(source)


def _start(span: Span, text: str) -> int:
    asked = int(text) if _NUMBER.fullmatch(text) else -OLD_TAIL
    first = asked if asked >= 0 else span.end + asked
    return min(max(span.start, first), span.end)


async def _page(title: str, source: LogSource, span: Span) -> AsyncGenerator[bytes, None]:
    yield f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{title}</title></head><body><pre>'.encode()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with aclosing(read_span(source, span)) as chunks:
        async for chunk in chunks:
            yield html.escape(decoder.decode(chunk), quote=False).encode()
    yield html.escape(decoder.decode(b"", final=True), quote=False).encode()
    yield b"</pre></body></html>\n"


def _answering(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except PaiError as error:
            return render(error)
        except UserError as error:
            return render(_translate(error))
        except HTTPException as error:  # a range that holds nothing
            return answer_error(error.status_code, "InvalidParametersError", error.detail, error.headers)

    return answer


def _translate(error: UserError) -> PaiError | UserError:
    if isinstance(error, Forbidden):
        return PaiError(403, "ForbiddenUserError", say(error))
    if isinstance(error, NotFound | Expired):
        return PaiError(404, "NoTaskLogError", NO_LOG)
    return error
