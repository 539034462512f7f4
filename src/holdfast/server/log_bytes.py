"""The bytes of a log as an answer: all of a span, or what a Range header asks of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from starlette.responses import Response

from holdfast.engines.base import LogSource
from holdfast.services.logs.reading import Span, read_span

from .errors import BadRange
from .streams import Guard, Stream

PLAIN = "text/plain; charset=utf-8"

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def answer_log(
    source: LogSource, span: Span, guard: Guard, asked: str, headers: Mapping[str, str], *, partial: bool = False
) -> Response:
    """`asked` is a Range header, or empty; `partial` says that the span itself is a part already."""
    found = _RANGE.fullmatch(asked)
    if found is not None and found.group(0) != "bytes=-":
        span, partial = _ranged(span, found[1], found[2]), True
    told = {**headers, "Accept-Ranges": "bytes", **describe_span(span)}
    if partial:
        told["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{span.size}"
    if span.complete:
        told["Content-Length"] = str(span.end - span.start)
    status = 206 if partial else 200
    return Stream(read_span(source, span), guard=guard, media_type=PLAIN, status=status, headers=told)


def describe_span(span: Span) -> dict[str, str]:
    return {
        "X-Log-Start": str(span.start),
        "X-Log-End": str(span.end),
        "X-Log-Size": str(span.size),
        "X-Log-Complete": "true" if span.complete else "false",
    }


def _ranged(span: Span, first: str, last: str) -> Span:
    """HTTP's own ranges: a-b with b included, a- and -n. They count from the log's first byte ever, as all offsets."""
    if not first:
        start, end = max(span.start, span.end - int(last)), span.end
    else:
        start = max(span.start, int(first))
        end = min(span.end, int(last) + 1) if last else span.end
    if start >= end:
        raise BadRange(span.size)
    return replace(span, start=start, end=end)
