"""The timeline of a task's two streams: when each had grown to where.

A file of 24-byte records (unix ms, end of stdout, end of stderr). Record i says that the merged stream holds, from
the sum of record i-1 to its own sum, first what stdout gained and then what stderr gained. So merged offsets never
change their meaning, and finding one is a binary search.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

RECORD = struct.Struct("<QQQ")
MAX_OFFSET = 1 << 61  # a task may make its log look absurdly large; sums must still fit


@dataclass(frozen=True, slots=True)
class Mark:
    at_ms: int
    out: int
    err: int

    @property
    def merged(self) -> int:
        return self.out + self.err


ZERO = Mark(0, 0, 0)


class Timeline:
    """Reads the record file behind `fd`; keeps nothing in memory."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.count = os.fstat(fd).st_size // RECORD.size

    def mark(self, index: int) -> Mark:
        """Record `index`; before the first, and where none can be read, nothing was written."""
        if index < 0:
            return ZERO
        data = os.pread(self._fd, RECORD.size, index * RECORD.size)
        return Mark(*RECORD.unpack(data)) if len(data) == RECORD.size else ZERO

    @property
    def last(self) -> Mark:
        return self.mark(self.count - 1)

    def first_where(self, holds: Callable[[Mark], bool]) -> int:
        """The first index whose record fulfils a condition that, once true, stays true; `count` if none."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if holds(self.mark(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def marks(self, index: int, batch: int = 512) -> Iterator[Mark]:
        """Records from `index` on."""
        while index < self.count:
            data = os.pread(self._fd, batch * RECORD.size, index * RECORD.size)
            whole = len(data) - len(data) % RECORD.size
            if not whole:
                return
            for fields in RECORD.iter_unpack(data[:whole]):
                yield Mark(*fields)
            index += whole // RECORD.size


def times(timeline: Timeline, place: Callable[[Mark], int], start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(from, to, unix ms) for the bytes from `start` to `end` of the stream whose length `place` tells."""
    index = timeline.first_where(lambda mark: place(mark) > start)
    while start < end and index < timeline.count:
        mark = timeline.mark(index)
        upto = min(end, place(mark))
        if upto > start:
            yield start, upto, mark.at_ms
            start, index = upto, index + 1
        else:  # only the other stream grew, perhaps for long
            index = max(index + 1, timeline.first_where(lambda mark, at=start: place(mark) > at))  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes `start` to `end` of one of the two streams."""

    stderr: bool
    start: int
    end: int


def pieces(timeline: Timeline, start: int, count: int) -> Iterator[Piece]:
    """What makes up `count` bytes of the merged stream from `start`, in order."""
    index = timeline.first_where(lambda mark: mark.merged > start)
    before = timeline.mark(index - 1)
    for mark in timeline.marks(index):
        offset = before.merged
        spans = (
            Piece(False, before.out, max(before.out, mark.out)),
            Piece(True, before.err, max(before.err, mark.err)),
        )
        for span in spans:
            size = span.end - span.start
            skip = max(0, start - offset)
            take = min(size - skip, count)
            if take > 0:
                yield Piece(span.stderr, span.start + skip, span.start + skip + take)
                count -= take
            offset += size
        if count <= 0:
            return
        before = mark


def joined(parts: Iterator[Piece]) -> Iterator[Piece]:
    """Neighbours of the same stream as one: a long quiet stderr must not chop up stdout."""
    held: Piece | None = None
    for part in parts:
        if held is not None and part.stderr == held.stderr and part.start == held.end:
            held = Piece(held.stderr, held.start, part.end)
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held
