"""The part of a log that is looked at: clean lines, each with its place in the log."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from .case import Piece, always_time
from .structured import told_errors

MAX_LENGTH = 4000  # characters of one line that are shown to rules
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,2}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])")
# What we add to a held task's log: it tells nothing of why it failed.
_OURS = re.compile(
    rb"job has finished with exit code -?\d{1,10}\n={12,400}\n(?:={6}[^\n]{0,400}={6}\n){1,6}(?:={12,400}\n)?"
)
_BREAK = re.compile(rb"[\r\n]")
_WORD = re.compile(rb"[a-z_]{3,}")


@dataclass(slots=True)
class LogText:
    """Colours and other orders to a terminal are left out; each redrawing of a progress bar is a line."""

    data: bytes  # clean
    lower: bytes
    words: bytes  # each of its words once: far shorter, and what is not in here is not in the text
    gap: int | None  # the number of the first line after a part that was left out
    _shifts: list[tuple[int, int]]  # from this place in `data` on, so many bytes further into the log
    _starts: list[int] = field(default_factory=list)  # of lines in `data`
    _time_up: Callable[[], bool] = always_time
    unfinished: bool = False  # the time was up before all of it had been looked at

    @classmethod
    def of(cls, pieces: Sequence[Piece], time_up: Callable[[], bool] = always_time) -> LogText:
        parts, shifts, size, cut = [], list[tuple[int, int]](), 0, None
        for number, piece in enumerate(pieces):
            data = piece.data
            if number:
                cut = size
            if number and not data.startswith(b"\n"):  # it begins within a line
                parts.append(b"\n")
                size += 1
            for start, kept in _cleaned(data):
                shifts.append((size, piece.start + start - size))
                parts.append(kept)
                size += len(kept)
        clean = b"".join(parts)
        starts = [0, *(found.end() for found in _BREAK.finditer(clean))]
        gap = bisect_right(starts, cut) if cut is not None else None
        lower = clean.lower()
        return cls(clean, lower, b" ".join(set(_WORD.findall(lower))), gap, shifts, starts, time_up)

    def __len__(self) -> int:
        return len(self._starts)

    def is_time_up(self) -> bool:
        """Whether to stop looking, and judge by what was found so far."""
        self.unfinished = self.unfinished or self._time_up()
        return self.unfinished

    def line(self, number: int) -> str:
        start, end = self._bounds(number)
        return self.data[start : min(end, start + MAX_LENGTH)].decode("utf-8", "replace")

    def number_at(self, place: int) -> int:
        """Of the line that holds this place in `data`."""
        return bisect_right(self._starts, place) - 1

    def column(self, number: int, place: int) -> int:
        """Which character of its line stands at this place in `data`."""
        return len(self.data[self._starts[number] : place].decode("utf-8", "replace"))

    def offset(self, number: int) -> int:
        """Of a line: bytes into the log."""
        start = self._starts[number]
        at = bisect_right(self._shifts, (start, 1 << 62)) - 1
        return start + (self._shifts[at][1] if at >= 0 else 0)

    def may_hold(self, literal: bytes) -> bool:
        """False: surely not. Much quicker than to look for it."""
        word = longest_word(literal)
        return not word or word in self.words

    def places(self, literal: bytes, most: int) -> Iterator[int]:
        """Where it stands, in lower case: from the end, the last `most` of them; each line once."""
        end = len(self.lower)
        for _ in range(most):
            found = self.lower.rfind(literal, 0, end)
            if found < 0:
                return
            yield found
            end = self._starts[self.number_at(found)]

    def first_places(self, literal: bytes, most: int) -> Iterator[int]:
        start = 0
        for _ in range(most):
            found = self.lower.find(literal, start)
            if found < 0:
                return
            yield found
            number = self.number_at(found) + 1
            if number >= len(self):
                return
            start = self._starts[number]

    def blank(self, number: int) -> bool:
        start, end = self._bounds(number)
        return not self.data[start:end].strip()

    def begins(self, number: int) -> bool:
        """It says something, and does not go on with what stands above it, as indented lines do."""
        start, end = self._bounds(number)
        return start < end and self.data[start : start + 1] not in (b" ", b"\t") and bool(self.data[start:end].strip())

    def last_lines(self, most: int) -> list[int]:
        """Numbers of the last lines that say something."""
        found: list[int] = []
        for number in range(len(self) - 1, max(len(self) - 200, -1), -1):
            if len(found) == most:
                break
            if not self.blank(number):
                found.append(number)
        return found[::-1]

    def _bounds(self, number: int) -> tuple[int, int]:
        last = number + 1 >= len(self._starts)
        return self._starts[number], len(self.data) if last else self._starts[number + 1] - 1


@cache
def longest_word(literal: bytes) -> bytes:
    return max(_WORD.findall(literal), key=len, default=b"")


def _cleaned(data: bytes) -> Iterator[tuple[int, bytes]]:
    """What is neither an order to a terminal nor ours, each with its place. What machines are told is told plainly."""
    at = 0
    for start, end, instead in _changes(data):
        if start > at:
            yield at, data[at:start]
        if end > at:
            for number, line in enumerate(instead, 1):
                yield start, line + b"\n" if number < len(instead) else line
        at = max(at, end)
    if at < len(data):
        yield at, data[at:]


def _changes(data: bytes) -> list[tuple[int, int, tuple[bytes, ...]]]:
    """From where to where, and what stands there instead."""
    changes = told_errors(data)
    if b"job has finished with" in data:
        changes += [(*found.span(), ()) for found in _OURS.finditer(data)]
    if b"\x1b" in data:
        changes += [(found.start(), found.end(), ()) for found in _ESCAPES.finditer(data)]
    return sorted(changes)
