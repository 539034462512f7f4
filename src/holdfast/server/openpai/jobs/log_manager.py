"""/log-manager: the logs behind the URLs in log lists. The token in the URL is the only credential."""

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
from holdfast.server.access_guard import AccessGuard, make_job_access_check
from holdfast.server.auth import get_services
from holdfast.server.log_responses import respond_with_log
from holdfast.server.streams import StreamedResponse
from holdfast.services.logs.reading import LogSpan, iter_span_chunks
from holdfast.services.logs.service import LinkedLog, TaskLog

from ..errors import PaiError, build_no_api_error, error_to_line, render_pai_error, respond_error
from .log_links import LINK_STREAMS
from .task_logs import NO_LOG_MESSAGE, build_no_log_error

TAIL_SIZE = 16384  # bytes
DEFAULT_PAGE_SIZE = 4096  # bytes, of a page without `start`

_NUMBER_PATTERN = re.compile(r"-?\d{1,18}")
_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]

Handler = Callable[[Request], Awaitable[Response]]


def list_log_routes() -> list[Route]:
    return [
        Route("/log-manager/pages/{link}/{file}", _wrap_handler(show_log_page)),
        Route("/log-manager/pages/{link}/{file}/", _wrap_handler(show_log_page)),
        Route("/log-manager/{machine}/api/v1/logs/{file}", _wrap_handler(send_linked_log)),
        Route("/log-manager/{path:path}", _wrap_handler(reject_request), methods=_ALL_METHODS),
    ]


async def send_linked_log(request: Request) -> Response:
    """Send the whole log as a file, or its end with tail-mode."""
    linked = await _open_linked_log(request, "user-", request.query_params.get("token", ""))
    chosen, guard = linked.log, _make_linked_log_guard(request, linked)
    source, span = await _open_log_source(request, chosen)
    asked = request.headers.get("range", "")
    if "true" not in (request.query_params.get("tail-mode"), request.query_params.get("tailMode")):
        headers = {"Content-Disposition": f'attachment; filename="{chosen.file_name}"'}
        return respond_with_log(source, span, guard, asked, headers)
    end = replace(span, start=max(span.start, span.end - TAIL_SIZE))
    return respond_with_log(source, end, guard, asked, {}, partial=end.start < end.end)


async def show_log_page(request: Request) -> Response:
    """Show the log in a page, from `start` on; a negative value counts from the end."""
    linked = await _open_linked_log(request, "user.pai.", request.path_params["link"])
    chosen, guard = linked.log, _make_linked_log_guard(request, linked)
    source, span = await _open_log_source(request, chosen)
    title = html.escape(f"{request.path_params['file']} of {chosen.record.task.task}")
    begun = replace(span, start=_parse_start(span, request.query_params.get("start", "")))
    return StreamedResponse(_render_log_page(title, source, begun), guard=guard, media_type="text/html; charset=utf-8")


async def reject_request(request: Request) -> Response:
    raise build_no_api_error(request.url.path)


async def _open_linked_log(request: Request, prefix: str, link: str) -> LinkedLog:
    start, found, stream = request.path_params["file"].partition(prefix)
    if start or not found or stream not in LINK_STREAMS:
        raise build_no_log_error()
    return await get_services(request).logs.open_link(link, LINK_STREAMS[stream])


def _make_linked_log_guard(request: Request, linked: LinkedLog) -> AccessGuard:
    """Guard access for as long as the creator of the link can read the log."""
    services = get_services(request)
    return AccessGuard(
        services.tokens, lambda: services.logs.load_link_creator(linked.token_id), make_job_access_check(linked.log.job)
    )


async def _open_log_source(request: Request, chosen: TaskLog) -> tuple[LogSource, LogSpan]:
    logs = get_services(request).logs
    source = logs.open_source(chosen)
    return source, await logs.get_full_span(source)


def _parse_start(span: LogSpan, text: str) -> int:
    asked = int(text) if _NUMBER_PATTERN.fullmatch(text) else -DEFAULT_PAGE_SIZE
    first = asked if asked >= 0 else span.end + asked
    return min(max(span.start, first), span.end)


async def _render_log_page(title: str, source: LogSource, span: LogSpan) -> AsyncGenerator[bytes, None]:
    yield f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{title}</title></head><body><pre>'.encode()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with aclosing(iter_span_chunks(source, span)) as chunks:
        async for chunk in chunks:
            yield html.escape(decoder.decode(chunk), quote=False).encode()
    yield html.escape(decoder.decode(b"", final=True), quote=False).encode()
    yield b"</pre></body></html>\n"


def _wrap_handler(handler: Handler) -> Handler:
    async def handle_request(request: Request) -> Response:
        try:
            return await handler(request)
        except PaiError as error:
            return render_pai_error(error)
        except UserError as error:
            return render_pai_error(_translate_error(error))
        except HTTPException as error:  # an empty range
            return respond_error(error.status_code, "InvalidParametersError", error.detail, error.headers)

    return handle_request


def _translate_error(error: UserError) -> PaiError | UserError:
    if isinstance(error, Forbidden):
        return PaiError(403, "ForbiddenUserError", error_to_line(error))
    if isinstance(error, NotFound | Expired):
        return PaiError(404, "NoTaskLogError", NO_LOG_MESSAGE)
    return error
