"""Finding the lines that match in a piece of a log.

Also run as a program of its own, fed by `log_search`: a pattern can take for ever, and would hold up the whole server
where a process can be ended. So it imports the standard library alone.
"""

from __future__ import annotations

import json
import re
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, NamedTuple

from holdfast.core.messages import msg

SHOWN = 1000  # characters of a line given with a hit
BEFORE = 200  # of them before the hit, in a longer line
MEMORY = 512 * 1024 * 1024  # bytes the program may use: patterns can ask for any amount
HEADER = struct.Struct(">QII")  # of a piece: its offset in the log, its length, most hits wanted

Match = Callable[[str], int]  # a line -> where in it the hit begins, or -1


class Hit(NamedTuple):
    offset: int  # where the match begins in the log
    line_offset: int  # where its line begins
    next_offset: int  # where the line after it begins
    text: str


def compile_match(query: str, *, regex: bool, ignore_case: bool) -> Match:
    """ValueError with a plain text when the pattern is not one."""
    if not regex and not ignore_case:
        return lambda line: line.find(query)
    try:
        pattern = re.compile(query if regex else re.escape(query), re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(str(error) or msg("it is too large")) from None

    def search(line: str) -> int:
        found = pattern.search(line)
        return found.start() if found else -1

    return search


def hits_in(piece: bytes, offset: int, match: Match) -> Iterator[Hit]:
    """One hit for each line of `piece` that matches. `offset`: where the piece begins in the log."""
    for begin, end in _lines(piece):
        line = piece[begin:end].rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        at = match(line)
        if at >= 0:
            before = len(line[:at].encode("utf-8", "surrogateescape"))
            yield Hit(offset + begin + before, offset + begin, offset + end, _show(line, at))


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


def _serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Read the question, answer whether it can be asked; then for each piece one line of JSON with its hits."""
    question = json.loads(stdin.readline())
    try:
        match = compile_match(question["query"], regex=True, ignore_case=question["ignore_case"])
    except ValueError as error:
        _answer(stdout, {"error": str(error)})
        return
    _answer(stdout, {"error": None})
    while header := stdin.read(HEADER.size):
        offset, length, limit = HEADER.unpack(header)
        _answer(stdout, list(islice(hits_in(stdin.read(length), offset, match), limit)))


def _answer(stdout: BinaryIO, value: object) -> None:
    stdout.write(json.dumps(value).encode() + b"\n")
    stdout.flush()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    _serve(sys.stdin.buffer, sys.stdout.buffer)
