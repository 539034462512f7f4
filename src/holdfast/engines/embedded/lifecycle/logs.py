"""A task's logs as random-access streams. Sizes are looked up when asked; bytes are read in threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Protocol, TypeVar

from holdfast.engines.base import Stream, Written

from ..task_folder import TaskFolder
from .recorder import Recorder, read_at, read_first, stream_size
from .timeline import MAX_OFFSET, ZERO, Mark, Piece, Timeline, joined, pieces, times

T = TypeVar("T")

_MAX_READ_SIZE = 8 * 1024 * 1024
_UNWATCHED = 0.02  # seconds between two looks at a task that is not watched yet
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 250_000_000_000_000  # ms: the clock of a machine may be wrong, but years have four digits
READERS = 4  # threads; with more of them, hundreds who follow a long log would keep everybody else waiting


class LogHost(Protocol):
    """What a log needs of the engine that has it."""

    @property
    def log_readers(self) -> asyncio.Semaphore:
        """Of all logs together."""
        ...

    def log_folder(self, attempt_id: str) -> TaskFolder | None: ...

    def recorder(self, attempt_id: str) -> Recorder | None:
        """That of a task that is watched, with its notices switched on; None also for one that runs unwatched, as
        right after its start."""
        ...

    def is_unsettled(self, attempt_id: str) -> bool:
        """Unwatched for a moment, and about to be watched or to have its last processes killed."""
        ...


class _Log:
    """What both kinds share: finding the files, wherever they lie by now, and waiting for more."""

    def __init__(self, host: LogHost, attempt_id: str) -> None:
        self._host = host
        self._id = attempt_id
        self._over = False

    async def size(self) -> int:
        raise NotImplementedError

    async def grown(self, size: int, timeout: float) -> bool:
        end = asyncio.get_running_loop().time() + timeout
        while not await self.complete():
            if await self.size() > size:
                return True
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or not await self._news(left):
                break
        return await self.size() > size

    async def complete(self) -> bool:
        """Once over, over for good. That nobody watches a task does not say that it has ended: its claim does."""
        if not self._over and self._host.recorder(self._id) is None and not self._host.is_unsettled(self._id):
            self._over = await self._look(lambda folder: not folder.is_alive(), True)
        return self._over

    async def _news(self, timeout: float) -> bool:
        """Wait until there may be more. False when nothing came in time."""
        recorder = self._host.recorder(self._id)
        if recorder is not None:
            return await recorder.wait(timeout)
        await asyncio.sleep(min(timeout, _UNWATCHED))
        return True

    async def _look(self, call: Callable[[TaskFolder], T], nothing: T) -> T:
        """Run `call` on the folder; again when the folder was put away meanwhile, for it then saw only part of it."""
        folder = self._host.log_folder(self._id)
        while folder is not None:
            async with self._host.log_readers:
                found, there = await asyncio.to_thread(_look_into, folder, call)
            if there:
                return found
            folder = self._host.log_folder(self._id)
        return nothing


def _look_into(folder: TaskFolder, call: Callable[[TaskFolder], T]) -> tuple[T, bool]:
    """What it found, and whether the folder is still there."""
    return call(folder), folder.exists()


class FileLog(_Log):
    """Stdout or stderr: one file, written by the task itself."""

    def __init__(self, host: LogHost, attempt_id: str, stream: Stream) -> None:
        super().__init__(host, attempt_id)
        self._name = stream.value
        self._index = 0 if stream is Stream.STDOUT else 1

    async def size(self) -> int:
        return await self._look(lambda folder: max(stream_size(folder, self._name), self._first(folder)), 0)

    async def first(self) -> int:
        return await self._look(self._first, 0)

    async def read(self, start: int, count: int) -> bytes:
        if start >= MAX_OFFSET:
            return b""
        return await self._look(lambda folder: read_at(folder[self._name], start, min(count, _MAX_READ_SIZE)), b"")

    async def offset_at(self, when: datetime) -> int:
        mark = await self._look(lambda folder: _mark_before(folder, when), ZERO)
        return max(mark.err if self._index else mark.out, await self.first())

    async def times(self, start: int, end: int, most: int) -> Sequence[Written]:
        start = max(start, await self.first())
        if (recorder := self._host.recorder(self._id)) is not None:
            recorder.record()  # so that the newest bytes have a time
        return await self._look(lambda folder: _times(folder, self._place, start, end, most), [])

    def _place(self, mark: Mark) -> int:
        return mark.err if self._index else mark.out

    def _first(self, folder: TaskFolder) -> int:
        return read_first(folder)[self._index]


class MergedLog(_Log):
    """Both streams in the order in which they grew, as the timeline tells it."""

    async def size(self) -> int:
        recorder = self._host.recorder(self._id)
        if recorder is not None:
            return recorder.record().merged
        # One that runs unwatched is left alone: whoever takes it up writes its timeline.
        return (await self._look(_final_mark if await self.complete() else _last_mark, ZERO)).merged

    async def first(self) -> int:
        return await self._look(_merged_first, 0)

    async def read(self, start: int, count: int) -> bytes:
        await self.size()  # so that what has been written until now is recorded
        return await self._look(lambda folder: _read_merged(folder, start, min(count, _MAX_READ_SIZE)), b"")

    async def offset_at(self, when: datetime) -> int:
        mark = await self._look(lambda folder: _mark_before(folder, when), ZERO)
        return max(mark.merged, await self.first())

    async def times(self, start: int, end: int, most: int) -> Sequence[Written]:
        start = max(start, await self.first())
        await self.size()  # as in read
        return await self._look(lambda folder: _times(folder, lambda mark: mark.merged, start, end, most), [])


def _open_timeline(folder: TaskFolder) -> int | None:
    try:
        return os.open(folder["timeline"], os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None


def _mark_before(folder: TaskFolder, when: datetime) -> Mark:
    """The last record of an earlier time; the zero one when there is none."""
    fd = _open_timeline(folder)
    if fd is None:
        return Mark(0, 0, 0)
    try:
        timeline = Timeline(fd)
        wanted = int(when.timestamp() * 1000)
        return timeline.mark(timeline.first_where(lambda mark: mark.at_ms >= wanted) - 1)
    finally:
        os.close(fd)


def _times(folder: TaskFolder, place: Callable[[Mark], int], start: int, end: int, most: int) -> list[Written]:
    fd = _open_timeline(folder)
    if fd is None:
        return []
    try:
        found = islice(times(Timeline(fd), place, start, end), most)
        return [Written(begin, upto, _EPOCH + timedelta(milliseconds=at)) for begin, upto, at in found if at < _LATEST]
    finally:
        os.close(fd)


def _last_mark(folder: TaskFolder) -> Mark:
    fd = _open_timeline(folder)
    if fd is None:
        return ZERO
    try:
        return Timeline(fd).last
    finally:
        os.close(fd)


def _final_mark(folder: TaskFolder) -> Mark:
    """The last record of an ended task; writes the one a dead server could not."""
    return Recorder(folder, cap=MAX_OFFSET).record(final=True)


def _merged_first(folder: TaskFolder) -> int:
    """From the first record on that lies wholly in what the cap has left."""
    out, err = read_first(folder)
    fd = _open_timeline(folder) if out or err else None
    if fd is None:
        return 0
    try:
        timeline = Timeline(fd)
        index = timeline.first_where(lambda mark: mark.out >= out and mark.err >= err)
        return timeline.mark(min(index, timeline.count - 1)).merged
    finally:
        os.close(fd)


def _read_merged(folder: TaskFolder, start: int, count: int) -> bytes:
    fd = _open_timeline(folder)
    if fd is None:
        return b""
    try:
        return b"".join(_bytes_of(folder, piece) for piece in joined(pieces(Timeline(fd), start, count)))
    finally:
        os.close(fd)


def _bytes_of(folder: TaskFolder, piece: Piece) -> bytes:
    """A piece in its full length: where the task has cut its own log short, offsets must still be right."""
    data = read_at(folder["stderr" if piece.stderr else "stdout"], piece.start, piece.end - piece.start)
    return data.ljust(piece.end - piece.start, b"\0")
