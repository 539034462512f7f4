"""Reading one log stream: a range, its last lines, and following it as it grows. Never holds more than a chunk."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from holdfast.engines.base import LogSource

CHUNK = 256 * 1024  # bytes read, sent and held at one time
TAIL_CHUNK = 64 * 1024
MAX_TAIL = 256 * 1024 * 1024  # bytes looked through for the last lines
TICK = 1.0  # seconds between two looks at whether a quiet log is complete


@dataclass(frozen=True, slots=True)
class Span:
    """Which bytes to read of a stream, [start, end), of how many there are."""

    start: int
    end: int
    size: int
    complete: bool  # nothing more will be written


async def whole(source: LogSource) -> Span:
    complete = await source.complete()  # asked first: what is complete now has its last size
    size = await source.size()
    first = await source.first()
    return Span(min(first, size), size, size, complete)


async def last_lines_start(source: LogSource, span: Span, lines: int) -> int:
    """Where the last `lines` lines of `span` begin. Looks backwards, so it costs what those lines are long."""
    if lines <= 0 or span.end <= span.start:
        return span.end
    found, position = 0, span.end
    lowest = max(span.start, span.end - MAX_TAIL)
    while position > lowest:
        begin = max(lowest, position - TAIL_CHUNK)
        chunk = await source.read(begin, position - begin)
        if len(chunk) < position - begin:  # the size cap dropped it meanwhile
            return position
        # The line break that ends the last line separates it from nothing.
        upto = len(chunk) - 1 if position == span.end and chunk.endswith(b"\n") else len(chunk)
        count = chunk.count(b"\n", 0, upto)
        if found + count >= lines:
            return begin + _nth_break_from_end(chunk, upto, lines - found) + 1
        found += count
        position = begin
    return lowest


def _nth_break_from_end(chunk: bytes, upto: int, n: int) -> int:
    at = upto
    for _ in range(n):
        at = chunk.rindex(b"\n", 0, at)
    return at


async def first_lines_end(source: LogSource, span: Span, lines: int) -> int:
    """Where the first `lines` lines of `span` end."""
    position = span.start
    while position < span.end:
        chunk = await source.read(position, min(TAIL_CHUNK, span.end - position))
        if not chunk:
            return position
        count = chunk.count(b"\n")
        if count >= lines:
            return position + _nth_break(chunk, lines) + 1
        lines -= count
        position += len(chunk)
    return position


def _nth_break(chunk: bytes, n: int) -> int:
    at = -1
    for _ in range(n):
        at = chunk.index(b"\n", at + 1)
    return at


async def read_span(source: LogSource, span: Span) -> AsyncGenerator[bytes, None]:
    """The bytes of `span`, chunk by chunk; ends early when the size cap drops them meanwhile."""
    position = span.start
    while position < span.end:
        chunk = await source.read(position, min(CHUNK, span.end - position))
        if not chunk:
            return
        yield chunk
        position += len(chunk)


async def follow(source: LogSource, start: int) -> AsyncGenerator[tuple[int, bytes], None]:
    """(offset, bytes) as they come, until the stream is complete. Empty bytes every TICK in which nothing came, so
    that the reader can show that it is alive."""
    position = max(start, await source.first())
    while True:
        done = await source.complete()  # asked before reading: what came before the end is then read below
        chunk = await source.read(position, CHUNK)
        if chunk:
            yield position, chunk
            position += len(chunk)
            continue
        first = await source.first()
        if position < first:  # the size cap overtook a slow reader
            position = first
            continue
        if done:
            return
        if not await source.grown(position, TICK):
            yield position, b""
