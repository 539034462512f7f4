"""Finding the lines of a log piece that contain a text or match a built-in pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

MAX_EXCERPT_LENGTH = 1000  # characters of a line shown with a hit
CONTEXT_LENGTH = 200  # characters before the hit, in a longer line

LineMatcher = Callable[[str], int]  # a line -> start of the hit, or -1


class Hit(NamedTuple):
    offset: int  # start of the match in the log
    line_offset: int  # start of its line
    next_offset: int  # start of the next line
    text: str


def compile_text_matcher(query: str, *, ignore_case: bool) -> LineMatcher:
    if not ignore_case:
        return lambda line: line.find(query)
    return compile_trusted_matcher(re.escape(query), re.IGNORECASE)


def compile_trusted_matcher(source: str, flags: int = 0) -> LineMatcher:
    """Compile a built-in pattern. Never pass a user's pattern: it can take exponential time."""
    pattern = re.compile(source, flags)

    def find_match_start(line: str) -> int:
        found = pattern.search(line)
        return found.start() if found else -1

    return find_match_start


def iter_line_hits(piece: bytes, offset: int, match: LineMatcher) -> Iterator[Hit]:
    """Yield one hit for each line of `piece` that matches. `offset`: start of the piece in the log."""
    for begin, end in _iter_lines(piece):
        data = piece[begin:end].rstrip(b"\r\n")
        line = data.decode("utf-8", "surrogateescape")
        at = match(line)
        if at >= 0:
            before = len(line[:at].encode("utf-8", "surrogateescape"))
            yield build_hit(data, before, begin=offset + begin, end=offset + end)


def build_hit(line: bytes, at: int, *, begin: int, end: int) -> Hit:
    """Build the hit at byte `at` of a line that spans the bytes from `begin` to `end` of the log."""
    before = len(line[:at].decode("utf-8", "surrogateescape"))
    return Hit(begin + at, begin, end, _format_excerpt(line.decode("utf-8", "surrogateescape"), before))


def trim_to_lines(data: bytes, *, last: bool) -> bytes:
    """Cut `data` after its last line break; return all of it if there is none or it is the `last` piece."""
    cut = data.rfind(b"\n") + 1
    return data if last or not cut else data[:cut]


def _iter_lines(piece: bytes) -> Iterator[tuple[int, int]]:
    """Yield line bounds. Only a line feed ends a line: progress bars use carriage returns."""
    begin = 0
    while begin < len(piece):
        end = piece.find(b"\n", begin) + 1 or len(piece)
        yield begin, end
        begin = end


def _format_excerpt(line: str, at: int) -> str:
    begin = 0 if len(line) <= MAX_EXCERPT_LENGTH else max(0, at - CONTEXT_LENGTH)
    return line[begin : begin + MAX_EXCERPT_LENGTH].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
