"""The timeline of a task's two streams: their sizes over time.

A file of 24-byte records (unix ms, end of stdout, end of stderr). In the merged stream, the bytes from the sum of
record i-1 to the sum of record i are first the new bytes of stdout and then those of stderr. So merged offsets never
change their meaning, and finding one is a binary search.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

RECORD_FORMAT = struct.Struct("<QQQ")
MAX_OFFSET = 1 << 61  # a task may make its log appear absurdly large; sums must still fit


@dataclass(frozen=True, slots=True)
class TimelineRecord:
    at_ms: int
    out: int
    err: int

    @property
    def merged_offset(self) -> int:
        return self.out + self.err


ZERO_RECORD = TimelineRecord(0, 0, 0)


class Timeline:
    """Reads the record file of `fd`; caches nothing. Without a file it is empty."""

    def __init__(self, fd: int | None) -> None:
        self._fd = -1 if fd is None else fd
        self.count = 0 if fd is None else os.fstat(fd).st_size // RECORD_FORMAT.size

    def read_record(self, index: int) -> TimelineRecord:
        """Return record `index`; the zero mark before the first, or if it cannot be read."""
        if index < 0:
            return ZERO_RECORD
        data = os.pread(self._fd, RECORD_FORMAT.size, index * RECORD_FORMAT.size)
        return TimelineRecord(*RECORD_FORMAT.unpack(data)) if len(data) == RECORD_FORMAT.size else ZERO_RECORD

    @property
    def last_record(self) -> TimelineRecord:
        return self.read_record(self.count - 1)

    def find_first_index(self, holds: Callable[[TimelineRecord], bool]) -> int:
        """Return the first index whose record fulfils a monotonic condition; `count` if none."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if holds(self.read_record(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def iter_records(self, index: int, batch: int = 512) -> Iterator[TimelineRecord]:
        while index < self.count:
            data = os.pread(self._fd, batch * RECORD_FORMAT.size, index * RECORD_FORMAT.size)
            whole = len(data) - len(data) % RECORD_FORMAT.size
            if not whole:
                return
            for fields in RECORD_FORMAT.iter_unpack(data[:whole]):
                yield TimelineRecord(*fields)
            index += whole // RECORD_FORMAT.size


def iter_times(
    timeline: Timeline, get_offset: Callable[[TimelineRecord], int], start: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (from, to, unix ms) for the bytes from `start` to `end` of the stream whose size is `get_offset(mark)`."""
    index = timeline.find_first_index(lambda mark: get_offset(mark) > start)
    while start < end and index < timeline.count:
        mark = timeline.read_record(index)
        upto = min(end, get_offset(mark))
        if upto > start:
            yield start, upto, mark.at_ms
            start, index = upto, index + 1
        else:  # only the other stream grew, perhaps for long
            index = max(index + 1, timeline.find_first_index(lambda mark, at=start: get_offset(mark) > at))  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class StreamSlice:
    """Bytes `start` to `end` of one of the two streams."""

    stderr: bool
    start: int
    end: int


def iter_slices(timeline: Timeline, start: int, count: int) -> Iterator[StreamSlice]:
    """Yield the pieces of `count` bytes of the merged stream from `start`, in order."""
    index = timeline.find_first_index(lambda mark: mark.merged_offset > start)
    before = timeline.read_record(index - 1)
    for mark in timeline.iter_records(index):
        offset = before.merged_offset
        spans = (
            StreamSlice(False, before.out, max(before.out, mark.out)),
            StreamSlice(True, before.err, max(before.err, mark.err)),
        )
        for span in spans:
            size = span.end - span.start
            skip = max(0, start - offset)
            take = min(size - skip, count)
            if take > 0:
                yield StreamSlice(span.stderr, span.start + skip, span.start + skip + take)
                count -= take
            offset += size
        if count <= 0:
            return
        before = mark


def join_slices(parts: Iterator[StreamSlice]) -> Iterator[StreamSlice]:
    """Join neighbours of the same stream: a silent stderr must not split stdout."""
    held: StreamSlice | None = None
    for part in parts:
        if held is not None and part.stderr == held.stderr and part.start == held.end:
            held = StreamSlice(held.stderr, held.start, part.end)
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held
