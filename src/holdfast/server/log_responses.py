"""Responses with the bytes of a log: a whole span, or the part that a Range header requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from starlette.responses import Response

from holdfast.engines.base import LogSource
from holdfast.services.logs.reading import LogSpan, iter_span_chunks

from .errors import RangeNotSatisfiable
from .streams import AccessWatcher, StreamedResponse

PLAIN_TEXT_TYPE = "text/plain; charset=utf-8"

_RANGE_PATTERN = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def respond_with_log(
    source: LogSource,
    span: LogSpan,
    guard: AccessWatcher,
    asked: str,
    headers: Mapping[str, str],
    *,
    partial: bool = False,
) -> Response:
    """Return a response. `asked` is a Range header, or empty; `partial`: the span itself is already a part."""
    found = _RANGE_PATTERN.fullmatch(asked)
    if found is not None and found.group(0) != "bytes=-":
        span, partial = _apply_range(span, found[1], found[2]), True
    sent_headers = {**headers, "Accept-Ranges": "bytes", **build_span_headers(span)}
    if partial:
        sent_headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{span.size}"
    if span.complete:
        sent_headers["Content-Length"] = str(span.end - span.start)
    status = 206 if partial else 200
    return StreamedResponse(
        iter_span_chunks(source, span), guard=guard, media_type=PLAIN_TEXT_TYPE, status=status, headers=sent_headers
    )


def build_span_headers(span: LogSpan) -> dict[str, str]:
    return {
        "X-Log-Start": str(span.start),
        "X-Log-End": str(span.end),
        "X-Log-Size": str(span.size),
        "X-Log-Complete": "true" if span.complete else "false",
    }


def _apply_range(span: LogSpan, first: str, last: str) -> LogSpan:
    """Apply HTTP ranges: a-b with b included, a- and -n. They count from the log's very first byte."""
    if not first:
        start, end = max(span.start, span.end - int(last)), span.end
    else:
        start = max(span.start, int(first))
        end = min(span.end, int(last) + 1) if last else span.end
    if start >= end:
        raise RangeNotSatisfiable(span.size)
    return replace(span, start=start, end=end)
