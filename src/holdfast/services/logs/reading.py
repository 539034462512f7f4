"""Reading one log stream: a range, its last lines, and following it. At most one chunk is in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from holdfast.engines.base import LogSource

CHUNK_SIZE = 256 * 1024  # bytes read and sent at a time
TAIL_CHUNK_SIZE = 64 * 1024  # bytes
MAX_TAIL_SIZE = 256 * 1024 * 1024  # bytes searched for the last lines
FOLLOW_INTERVAL = 1.0  # seconds between checks whether a quiet log is complete


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The bytes [start, end) of a stream of `size` bytes."""

    start: int
    end: int
    size: int
    complete: bool  # nothing more will be written


async def get_full_span(source: LogSource) -> LogSpan:
    complete = await source.is_complete()  # read first: a complete stream has its final size
    size = await source.get_size()
    first = await source.find_first_offset()
    return LogSpan(min(first, size), size, size, complete)


async def find_last_lines_start(source: LogSource, span: LogSpan, lines: int) -> int:
    """Return where the last `lines` lines of `span` start. Reads backwards, only as far as those lines."""
    if lines <= 0 or span.end <= span.start:
        return span.end
    found, position = 0, span.end
    lowest = max(span.start, span.end - MAX_TAIL_SIZE)
    while position > lowest:
        begin = max(lowest, position - TAIL_CHUNK_SIZE)
        chunk = await source.read(begin, position - begin)
        if len(chunk) < position - begin:  # the size limit has dropped it
            return position
        # Do not count the line break at the end of the last line.
        upto = len(chunk) - 1 if position == span.end and chunk.endswith(b"\n") else len(chunk)
        count = chunk.count(b"\n", 0, upto)
        if found + count >= lines:
            return begin + _find_nth_last_break(chunk, upto, lines - found) + 1
        found += count
        position = begin
    return lowest


def _find_nth_last_break(chunk: bytes, upto: int, n: int) -> int:
    at = upto
    for _ in range(n):
        at = chunk.rindex(b"\n", 0, at)
    return at


async def find_first_lines_end(source: LogSource, span: LogSpan, lines: int) -> int:
    position = span.start
    while position < span.end:
        chunk = await source.read(position, min(TAIL_CHUNK_SIZE, span.end - position))
        if not chunk:
            return position
        count = chunk.count(b"\n")
        if count >= lines:
            return position + _find_nth_break(chunk, lines) + 1
        lines -= count
        position += len(chunk)
    return position


def _find_nth_break(chunk: bytes, n: int) -> int:
    at = -1
    for _ in range(n):
        at = chunk.index(b"\n", at + 1)
    return at


async def iter_span_chunks(source: LogSource, span: LogSpan) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of `span` in chunks; end early if the size limit drops them."""
    position = span.start
    while position < span.end:
        chunk = await source.read(position, min(CHUNK_SIZE, span.end - position))
        if not chunk:
            return
        yield chunk
        position += len(chunk)


async def follow_source(source: LogSource, start: int) -> AsyncGenerator[tuple[int, bytes], None]:
    """Yield (offset, bytes) until the stream is complete; without output, empty bytes once a second as a keepalive."""
    position = max(start, await source.find_first_offset())
    while True:
        done = await source.is_complete()  # before reading, so that no output before the end is missed
        chunk = await source.read(position, CHUNK_SIZE)
        if chunk:
            yield position, chunk
            position += len(chunk)
            continue
        first = await source.find_first_offset()
        if position < first:  # the size limit dropped bytes that a slow reader had not read
            position = first
            continue
        if done:
            return
        if not await source.wait_for_growth(position, FOLLOW_INTERVAL):
            yield position, b""
