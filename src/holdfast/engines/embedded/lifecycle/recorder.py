"""Writes the timeline of one running task, keeps its logs below their cap, and wakes their readers."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

from ..descriptors import closing_fd
from ..libc import punch_hole
from ..task_folder import TaskFolder, read_file_range
from .timeline import MAX_OFFSET, RECORD_FORMAT, ZERO_RECORD, Timeline, TimelineRecord

_MAX_LINE_SEARCH_SIZE = 4096  # max bytes to search back for a line end
_PARTIAL_LINE_TIMEOUT = 0.1  # seconds an unfinished line is held back from the merged stream
_BLOCK_SIZE = 4096  # bytes


class LogRecorder:
    """One for each task; all methods are called on the event loop and none blocks for long."""

    def __init__(self, folder: TaskFolder, cap: int) -> None:
        self._folder = folder
        self._max_stream_size = cap
        self._last_record = ZERO_RECORD
        self._opened = False
        self._partial_line_since: float | None = None
        self.first_offsets = self._saved_first_offsets = read_first_offsets(folder)
        self._waiters: set[asyncio.Future[None]] = set()
        self.ended = False

    def record_sizes(self, *, final: bool = False) -> TimelineRecord:
        """Record the sizes of both streams; return the newest record."""
        self._open_timeline()
        out, err = self._read_stream_size("stdout"), self._read_stream_size("stderr")
        if not final:
            out, err = self._trim_to_lines(out, err)
        if (out, err) != (self._last_record.out, self._last_record.err):
            self._append_record(
                TimelineRecord(
                    int(time.time() * 1000), max(out, self._last_record.out), max(err, self._last_record.err)
                )
            )
            self._trim_streams_to(out, err, self._max_stream_size)
        self._save_first_offsets()
        return self._last_record

    @property
    def has_partial_line(self) -> bool:
        """Whether an unfinished line is held back: record again soon."""
        return self._partial_line_since is not None

    def finish_recording(self) -> None:
        """Record the last bytes of an ended task and wake all readers."""
        self.record_sizes(final=True)
        self.ended = True
        self.wake_readers()

    def wake_readers(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_growth(self, timeout: float) -> bool:
        """Wait for growth or the end; False on timeout."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True

    def _open_timeline(self) -> None:
        if self._opened:
            return
        self._opened = True
        with suppress(OSError):
            self._last_record = _repair_timeline(self._folder["timeline"])
        if self._last_record != ZERO_RECORD:  # an earlier server may have been killed after it cut a log
            out, err = self.first_offsets
            self.first_offsets = (
                _find_data_offset(self._folder["stdout"], out),
                _find_data_offset(self._folder["stderr"], err),
            )

    def _append_record(self, mark: TimelineRecord) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with suppress(OSError), closing_fd(os.open(self._folder["timeline"], flags, 0o600)) as fd:
            size = os.fstat(fd).st_size
            if os.write(fd, RECORD_FORMAT.pack(mark.at_ms, mark.out, mark.err)) == RECORD_FORMAT.size:
                self._last_record = mark
            else:
                os.ftruncate(fd, size)  # the disk is full; the bytes will be recorded later

    def _read_stream_size(self, stream: str) -> int:
        return read_stream_size(self._folder, stream)

    def _trim_to_lines(self, out: int, err: int) -> tuple[int, int]:
        """Trim both to their last line end, unless an unfinished line has waited long enough."""
        cut_out = self._find_line_end("stdout", self._last_record.out, out)
        cut_err = self._find_line_end("stderr", self._last_record.err, err)
        now = time.monotonic()
        if (cut_out, cut_err) == (out, err):
            self._partial_line_since = None
            return out, err
        if self._partial_line_since is None:
            self._partial_line_since = now
        elif now - self._partial_line_since >= _PARTIAL_LINE_TIMEOUT:
            self._partial_line_since = None
            return out, err
        return cut_out, cut_err

    def _find_line_end(self, stream: str, start: int, end: int) -> int:
        if end <= start:
            return end
        reach = min(_MAX_LINE_SEARCH_SIZE, end - start)
        tail = read_file_range(self._folder[stream], end - reach, reach)
        found = max(tail.rfind(b"\n"), tail.rfind(b"\r"))
        if found < 0:
            return end if reach == _MAX_LINE_SEARCH_SIZE else start  # a line longer than that is cut anywhere
        return end - reach + found + 1

    def count_kept_bytes(self) -> int:
        """Return the recorded bytes of both streams."""
        return max(0, self._last_record.out - self.first_offsets[0]) + max(
            0, self._last_record.err - self.first_offsets[1]
        )

    def trim_streams(self, keep: int) -> int:
        """Keep the newest `keep` bytes of each stream, because the disk is full; return the bytes dropped."""
        return self._trim_streams_to(self._read_stream_size("stdout"), self._read_stream_size("stderr"), keep)

    def _trim_streams_to(self, out: int, err: int, keep: int) -> int:
        """Cut both streams by their file sizes: on a full disk the timeline lags behind."""
        first_out, first_err = self.first_offsets
        self.first_offsets = (
            self._trim_stream("stdout", out, first_out, keep),
            self._trim_stream("stderr", err, first_err, keep),
        )
        self._save_first_offsets()
        return sum(self.first_offsets) - first_out - first_err

    def _save_first_offsets(self) -> None:
        """Write the first offsets. On a full disk the next record retries: by then the cut has freed space."""
        if self.first_offsets != self._saved_first_offsets and write_first_offsets(self._folder, *self.first_offsets):
            self._saved_first_offsets = self.first_offsets

    def _trim_stream(self, stream: str, end: int, first: int, keep: int) -> int:
        """Drop the oldest bytes of a stream above `keep`, in large steps."""
        if end - first <= keep + max(keep // 16, _BLOCK_SIZE):
            return first
        keep_from = (end - keep) // _BLOCK_SIZE * _BLOCK_SIZE
        return keep_from if punch_hole(self._folder[stream], keep_from) else first


def _repair_timeline(path: str) -> TimelineRecord:
    """Return the last valid record. A partial one, or zeros after a power cut, are removed."""
    with closing_fd(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)) as fd:
        timeline = Timeline(fd)
        good = timeline.count
        while good and timeline.read_record(good - 1).merged_offset == 0:
            good -= 1
        if good * RECORD_FORMAT.size != os.fstat(fd).st_size:
            os.ftruncate(fd, good * RECORD_FORMAT.size)
        return timeline.read_record(good - 1)


def _find_data_offset(path: str, start: int) -> int:
    """Return the first byte from `start` on that is kept; cut bytes are a hole."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError), closing_fd(os.open(path, flags)) as fd:
        return os.lseek(fd, start, os.SEEK_DATA)
    return start  # only a hole follows, or the filesystem does not support holes


def read_stream_size(folder: TaskFolder, stream: str) -> int:
    try:
        return min(os.lstat(folder[stream]).st_size, MAX_OFFSET)
    except OSError:
        return 0


def read_first_offsets(folder: TaskFolder) -> tuple[int, int]:
    """Return the first offsets still kept of stdout and stderr."""
    try:
        out, err = folder.read_head("first", 100).split()
        return max(0, int(out)), max(0, int(err))
    except ValueError:
        return 0, 0


def write_first_offsets(folder: TaskFolder, out: int, err: int) -> bool:
    """Return False if the disk is full; then the old offsets stay."""
    draft = folder["first.draft"]
    try:
        with open(draft, "w") as file:
            file.write(f"{out} {err}\n")
        os.replace(draft, folder["first"])
    except OSError:
        return False
    return True
