"""Finding the lines that hold a text, or match a pattern of our own, in a piece of a log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

SHOWN = 1000  # characters of a line given with a hit
BEFORE = 200  # of them before the hit, in a longer line

Match = Callable[[str], int]  # a line -> where in it the hit begins, or -1


class Hit(NamedTuple):
    offset: int  # where the match begins in the log
    line_offset: int  # where its line begins
    next_offset: int  # where the line after it begins
    text: str


def compile_text(query: str, *, ignore_case: bool) -> Match:
    if not ignore_case:
        return lambda line: line.find(query)
    return compile_own(re.escape(query), re.IGNORECASE)


def compile_own(source: str, flags: int = 0) -> Match:
    """`source`: never a user's pattern, which can take exponential time."""
    pattern = re.compile(source, flags)

    def search(line: str) -> int:
        found = pattern.search(line)
        return found.start() if found else -1

    return search


def hits_in(piece: bytes, offset: int, match: Match) -> Iterator[Hit]:
    """One hit for each line of `piece` that matches. `offset`: where the piece begins in the log."""
    for begin, end in _lines(piece):
        data = piece[begin:end].rstrip(b"\r\n")
        line = data.decode("utf-8", "surrogateescape")
        at = match(line)
        if at >= 0:
            before = len(line[:at].encode("utf-8", "surrogateescape"))
            yield make_hit(data, before, begin=offset + begin, end=offset + end)


def make_hit(line: bytes, at: int, *, begin: int, end: int) -> Hit:
    """At byte `at` of a line that takes the bytes from `begin` to `end` of the log."""
    before = len(line[:at].decode("utf-8", "surrogateescape"))
    return Hit(begin + at, begin, end, _show(line.decode("utf-8", "surrogateescape"), before))


def whole_lines(data: bytes, *, last: bool) -> bytes:
    """What of `data` to search now: up to its last line break; all, when there is none or no more comes."""
    cut = data.rfind(b"\n") + 1
    return data if last or not cut else data[:cut]


def _lines(piece: bytes) -> Iterator[tuple[int, int]]:
    """A line feed alone ends a line: progress bars rewrite theirs with carriage returns."""
    begin = 0
    while begin < len(piece):
        end = piece.find(b"\n", begin) + 1 or len(piece)
        yield begin, end
        begin = end


def _show(line: str, at: int) -> str:
    begin = 0 if len(line) <= SHOWN else max(0, at - BEFORE)
    return line[begin : begin + SHOWN].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
