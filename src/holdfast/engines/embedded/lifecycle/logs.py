"""A task's logs as random-access streams. Sizes are read on demand; bytes are read in threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Protocol, TypeVar

from holdfast.engines.base import LogSource, LogStream, WrittenRange

from ..descriptors import closing_fd
from ..task_folder import TaskFolder, is_safe_id, read_file_range
from .recorder import LogRecorder, read_first_offsets, read_stream_size
from .task_folders import TaskFolders
from .timeline import (
    MAX_OFFSET,
    ZERO_RECORD,
    StreamSlice,
    Timeline,
    TimelineRecord,
    iter_slices,
    iter_times,
    join_slices,
)

T = TypeVar("T")

_MAX_READ_SIZE = 8 * 1024 * 1024  # bytes
_UNWATCHED_INTERVAL = 0.02  # seconds between two checks of a task that is not watched yet
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIMESTAMP_MS = 250_000_000_000_000  # ms: the machine's clock may be wrong, but years have four digits
MAX_LOG_READERS = 4  # threads; with more, hundreds of readers of a long log would delay everything else


class SupportsLogs(Protocol):
    """What a log needs of its engine."""

    @property
    def log_readers(self) -> asyncio.Semaphore:
        """Shared by all logs."""
        ...

    def find_log_folder(self, attempt_id: str) -> TaskFolder | None: ...

    def get_followed_recorder(self, attempt_id: str) -> LogRecorder | None:
        """Return the recorder of a watched task, with notifications on; None also for a running task that is not
        watched yet."""
        ...

    def is_in_transition(self, attempt_id: str) -> bool:
        """Return whether it is about to be watched, or its last processes are about to be killed."""
        ...


class _TaskLog:
    """Base of both kinds: finds the files, also after they were archived, and waits for growth."""

    def __init__(self, host: SupportsLogs, attempt_id: str) -> None:
        self._host = host
        self._id = attempt_id
        self._over = False

    async def get_size(self) -> int:
        raise NotImplementedError

    async def wait_for_growth(self, size: int, timeout: float) -> bool:
        end = asyncio.get_running_loop().time() + timeout
        while not await self.is_complete():
            if await self.get_size() > size:
                return True
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or not await self._wait_for_change(left):
                break
        return await self.get_size() > size

    async def is_complete(self) -> bool:
        """Return whether the log is final. An unwatched task may still run: only its claim shows that it has ended."""
        if (
            not self._over
            and self._host.get_followed_recorder(self._id) is None
            and not self._host.is_in_transition(self._id)
        ):
            self._over = await self._call_on_folder(lambda folder: not folder.is_alive(), True)
        return self._over

    async def _wait_for_change(self, timeout: float) -> bool:
        """Wait until the log may have grown. False on timeout."""
        recorder = self._host.get_followed_recorder(self._id)
        if recorder is not None:
            return await recorder.wait_for_growth(timeout)
        await asyncio.sleep(min(timeout, _UNWATCHED_INTERVAL))
        return True

    async def _call_on_folder(self, call: Callable[[TaskFolder], T], nothing: T) -> T:
        """Run `call` on the folder, in a thread."""
        async with self._host.log_readers:
            return await asyncio.to_thread(_call_on_folder, self._host, self._id, call, nothing)


def _call_on_folder(host: SupportsLogs, attempt_id: str, call: Callable[[TaskFolder], T], nothing: T) -> T:
    """Call it again if the folder was archived in the meantime, since it saw only a part. Blocking."""
    while (folder := host.find_log_folder(attempt_id)) is not None:
        found = call(folder)
        if folder.exists():
            return found
    return nothing


class FileLog(_TaskLog):
    """Stdout or stderr: one file, written by the task."""

    def __init__(self, host: SupportsLogs, attempt_id: str, stream: LogStream) -> None:
        super().__init__(host, attempt_id)
        self._name = stream.value
        self._index = 0 if stream is LogStream.STDOUT else 1

    async def get_size(self) -> int:
        return await self._call_on_folder(
            lambda folder: max(read_stream_size(folder, self._name), self._read_first_offset(folder)), 0
        )

    async def find_first_offset(self) -> int:
        return await self._call_on_folder(self._read_first_offset, 0)

    async def read(self, start: int, count: int) -> bytes:
        if start >= MAX_OFFSET:
            return b""
        return await self._call_on_folder(
            lambda folder: read_file_range(folder[self._name], start, min(count, _MAX_READ_SIZE)), b""
        )

    async def find_offset(self, when: datetime) -> int:
        mark = await self._call_on_folder(lambda folder: _find_mark_before(folder, when), ZERO_RECORD)
        return max(mark.err if self._index else mark.out, await self.find_first_offset())

    async def list_write_times(self, start: int, end: int, most: int) -> Sequence[WrittenRange]:
        start = max(start, await self.find_first_offset())
        if (recorder := self._host.get_followed_recorder(self._id)) is not None:
            recorder.record_sizes()  # so that the newest bytes have a time
        return await self._call_on_folder(
            lambda folder: _list_write_times(folder, self._get_offset, start, end, most), []
        )

    def _get_offset(self, mark: TimelineRecord) -> int:
        return mark.err if self._index else mark.out

    def _read_first_offset(self, folder: TaskFolder) -> int:
        return read_first_offsets(folder)[self._index]


class MergedLog(_TaskLog):
    """Both streams in the order of the timeline."""

    async def get_size(self) -> int:
        recorder = self._host.get_followed_recorder(self._id)
        if recorder is not None:
            return recorder.record_sizes().merged_offset
        # A running task that is not watched is left alone: the watcher writes its timeline.
        return (
            await self._call_on_folder(_record_final_mark if await self.is_complete() else _read_last_mark, ZERO_RECORD)
        ).merged_offset

    async def find_first_offset(self) -> int:
        return await self._call_on_folder(_find_first_merged_offset, 0)

    async def read(self, start: int, count: int) -> bytes:
        await self.get_size()  # so that all bytes written until now are recorded
        return await self._call_on_folder(lambda folder: _read_merged(folder, start, min(count, _MAX_READ_SIZE)), b"")

    async def find_offset(self, when: datetime) -> int:
        mark = await self._call_on_folder(lambda folder: _find_mark_before(folder, when), ZERO_RECORD)
        return max(mark.merged_offset, await self.find_first_offset())

    async def list_write_times(self, start: int, end: int, most: int) -> Sequence[WrittenRange]:
        start = max(start, await self.find_first_offset())
        await self.get_size()  # as in read
        return await self._call_on_folder(
            lambda folder: _list_write_times(folder, lambda mark: mark.merged_offset, start, end, most), []
        )


def find_log_folder(folders: TaskFolders, attempt_id: str) -> TaskFolder | None:
    """Return the folder with the logs of a task; None if it has none. Blocking."""
    if not is_safe_id(attempt_id):
        return None
    for _ in range(2):  # it may be archived between the two checks
        folder = folders.get_folder(attempt_id)
        if os.path.lexists(folder["stdout"]):
            return folder
    return None


def make_log(host: SupportsLogs, attempt_id: str, stream: LogStream) -> LogSource:
    """Return the log of a task that has one."""
    return MergedLog(host, attempt_id) if stream is LogStream.MERGED else FileLog(host, attempt_id, stream)


@contextmanager
def _open_timeline(folder: TaskFolder) -> Iterator[Timeline]:
    """Yield the timeline; an empty one if it cannot be read."""
    try:
        fd = os.open(folder["timeline"], os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield Timeline(None)
        return
    with closing_fd(fd):
        yield Timeline(fd)


def _find_mark_before(folder: TaskFolder, when: datetime) -> TimelineRecord:
    """Return the last record of an earlier time; the zero mark if there is none."""
    at_ms = int(when.timestamp() * 1000)
    with _open_timeline(folder) as timeline:
        return timeline.read_record(timeline.find_first_index(lambda mark: mark.at_ms >= at_ms) - 1)


def _list_write_times(
    folder: TaskFolder, get_offset: Callable[[TimelineRecord], int], start: int, end: int, most: int
) -> list[WrittenRange]:
    with _open_timeline(folder) as timeline:
        return [
            WrittenRange(begin, upto, _EPOCH + timedelta(milliseconds=at))
            for begin, upto, at in islice(iter_times(timeline, get_offset, start, end), most)
            if at < _MAX_TIMESTAMP_MS
        ]


def _read_last_mark(folder: TaskFolder) -> TimelineRecord:
    with _open_timeline(folder) as timeline:
        return timeline.last_record


def _record_final_mark(folder: TaskFolder) -> TimelineRecord:
    """Return the last record of an ended task; write it if the server died before."""
    return LogRecorder(folder, cap=MAX_OFFSET).record_sizes(final=True)


def _find_first_merged_offset(folder: TaskFolder) -> int:
    """Return the offset of the first record that lies entirely in the kept bytes."""
    out, err = read_first_offsets(folder)
    if not out and not err:
        return 0
    with _open_timeline(folder) as timeline:
        index = timeline.find_first_index(lambda mark: mark.out >= out and mark.err >= err)
        return timeline.read_record(min(index, timeline.count - 1)).merged_offset


def _read_merged(folder: TaskFolder, start: int, count: int) -> bytes:
    with _open_timeline(folder) as timeline:
        return b"".join(_read_stream_slice(folder, piece) for piece in join_slices(iter_slices(timeline, start, count)))


def _read_stream_slice(folder: TaskFolder, piece: StreamSlice) -> bytes:
    """Return a piece in its full length: offsets stay right even if the task truncated its log."""
    data = read_file_range(folder["stderr" if piece.stderr else "stdout"], piece.start, piece.end - piece.start)
    return data.ljust(piece.end - piece.start, b"\0")
