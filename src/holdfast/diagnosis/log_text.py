"""The part of a log that is read: clean lines, each with its offset in the log."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from .case import LogExcerpt, never_expires
from .structured_logs import find_structured_errors

MAX_LINE_LENGTH = 4000  # characters of one line that rules see
_TERMINAL_ESCAPE_PATTERN = re.compile(
    rb"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,2}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])"
)
# What Holdfast adds to the log of a task on hold: it is not part of the failure.
_HOLD_BANNER_PATTERN = re.compile(
    rb"job has finished with exit code -?\d{1,10}\n={12,400}\n(?:={6}[^\n]{0,400}={6}\n){1,6}(?:={12,400}\n)?"
)
_LINE_BREAK_PATTERN = re.compile(rb"[\r\n]")
_WORD_PATTERN = re.compile(rb"[a-z_]{3,}")


@dataclass(slots=True)
class LogText:
    """Lines of a log without terminal escape sequences; each update of a progress bar is a line."""

    data: bytes  # clean
    lower: bytes
    words: bytes  # each word once: much shorter, so that absent words are found quickly
    line_after_gap: int | None  # number of the first line after the omitted part
    _shifts: list[tuple[int, int]]  # (position in `data`, bytes to add for the offset in the log)
    _starts: list[int] = field(default_factory=list)  # of lines in `data`
    _time_up: Callable[[], bool] = never_expires
    unfinished: bool = False  # the deadline passed before all of it was searched

    @classmethod
    def from_excerpts(cls, pieces: Sequence[LogExcerpt], time_up: Callable[[], bool] = never_expires) -> LogText:
        parts, shifts, size, cut = [], list[tuple[int, int]](), 0, None
        for number, piece in enumerate(pieces):
            data = piece.data
            if number:
                cut = size
            if number and not data.startswith(b"\n"):  # it begins within a line
                parts.append(b"\n")
                size += 1
            for start, kept in _iter_clean_chunks(data):
                shifts.append((size, piece.start + start - size))
                parts.append(kept)
                size += len(kept)
        clean = b"".join(parts)
        starts = [0, *(found.end() for found in _LINE_BREAK_PATTERN.finditer(clean))]
        gap = bisect_right(starts, cut) if cut is not None else None
        lower = clean.lower()
        return cls(clean, lower, b" ".join(set(_WORD_PATTERN.findall(lower))), gap, shifts, starts, time_up)

    def __len__(self) -> int:
        return len(self._starts)

    def is_time_up(self) -> bool:
        """Whether to stop the search and decide with the findings so far."""
        self.unfinished = self.unfinished or self._time_up()
        return self.unfinished

    def get_line(self, number: int) -> str:
        start, end = self._get_line_span(number)
        return self.data[start : min(end, start + MAX_LINE_LENGTH)].decode("utf-8", "replace")

    def find_line_number(self, place: int) -> int:
        """Return the number of the line at this position in `data`."""
        return bisect_right(self._starts, place) - 1

    def find_column(self, number: int, place: int) -> int:
        """Return the column of this position in `data` within its line."""
        return len(self.data[self._starts[number] : place].decode("utf-8", "replace"))

    def get_offset(self, number: int) -> int:
        """Return the offset of a line in the log, in bytes."""
        start = self._starts[number]
        at = bisect_right(self._shifts, (start, 1 << 62)) - 1
        return start + (self._shifts[at][1] if at >= 0 else 0)

    def can_contain(self, literal: bytes) -> bool:
        """Whether the text may contain the literal; False is certain. Much faster than a search."""
        word = find_longest_word(literal)
        return not word or word in self.words

    def iter_last_positions(self, literal: bytes, most: int) -> Iterator[int]:
        """Return the last `most` positions of a lower-case literal, from the end; each line once."""
        end = len(self.lower)
        for _ in range(most):
            found = self.lower.rfind(literal, 0, end)
            if found < 0:
                return
            yield found
            end = self._starts[self.find_line_number(found)]

    def iter_first_positions(self, literal: bytes, most: int) -> Iterator[int]:
        start = 0
        for _ in range(most):
            found = self.lower.find(literal, start)
            if found < 0:
                return
            yield found
            number = self.find_line_number(found) + 1
            if number >= len(self):
                return
            start = self._starts[number]

    def is_blank(self, number: int) -> bool:
        start, end = self._get_line_span(number)
        return not self.data[start:end].strip()

    def is_entry_start(self, number: int) -> bool:
        """Whether the line starts a new entry: it is neither blank nor indented."""
        start, end = self._get_line_span(number)
        return start < end and self.data[start : start + 1] not in (b" ", b"\t") and bool(self.data[start:end].strip())

    def list_last_line_numbers(self, most: int) -> list[int]:
        """Return the numbers of the last lines that are not blank."""
        found: list[int] = []
        for number in range(len(self) - 1, max(len(self) - 200, -1), -1):
            if len(found) == most:
                break
            if not self.is_blank(number):
                found.append(number)
        return found[::-1]

    def _get_line_span(self, number: int) -> tuple[int, int]:
        last = number + 1 >= len(self._starts)
        return self._starts[number], len(self.data) if last else self._starts[number + 1] - 1


@cache
def find_longest_word(literal: bytes) -> bytes:
    return max(_WORD_PATTERN.findall(literal), key=len, default=b"")


def _iter_clean_chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the clean parts of a log with their positions. Structured errors become plain lines."""
    at = 0
    for start, end, instead in _list_replacements(data):
        if start > at:
            yield at, data[at:start]
        if end > at:
            for number, line in enumerate(instead, 1):
                yield start, line + b"\n" if number < len(instead) else line
        at = max(at, end)
    if at < len(data):
        yield at, data[at:]


def _list_replacements(data: bytes) -> list[tuple[int, int, tuple[bytes, ...]]]:
    """Return (start, end, replacement lines)."""
    changes = find_structured_errors(data)
    if b"job has finished with" in data:
        changes += [(*found.span(), ()) for found in _HOLD_BANNER_PATTERN.finditer(data)]
    if b"\x1b" in data:
        changes += [(found.start(), found.end(), ()) for found in _TERMINAL_ESCAPE_PATTERN.finditer(data)]
    return sorted(changes)
