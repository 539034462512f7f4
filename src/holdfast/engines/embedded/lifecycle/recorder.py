"""Writes the timeline of one running task, keeps its logs below their cap, and wakes those who follow."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

from ..libc import punch_hole
from ..task_folder import TaskFolder
from .timeline import MAX_OFFSET, RECORD, ZERO, Mark, Timeline

_TAIL = 4096  # how far back a line end is looked for
_TIMEOUT = 0.1  # seconds an unfinished line is held back from the merged stream
_BLOCK = 4096


class Recorder:
    """One for each task; all methods are called on the event loop and none blocks for long."""

    def __init__(self, folder: TaskFolder, cap: int) -> None:
        self._folder = folder
        self._cap = cap
        self._last = ZERO
        self._opened = False
        self._held_since: float | None = None
        self.first = self._first_written = read_first(folder)
        self._waiters: set[asyncio.Future[None]] = set()
        self.ended = False

    def record(self, *, final: bool = False) -> Mark:
        """Note how far the streams have come; answers the newest record."""
        self._open()
        out, err = self._size("stdout"), self._size("stderr")
        if not final:
            out, err = self._whole_lines(out, err)
        if (out, err) != (self._last.out, self._last.err):
            self._append(Mark(int(time.time() * 1000), max(out, self._last.out), max(err, self._last.err)))
            self._enforce_cap(out, err)
        self._keep_first()
        return self._last

    @property
    def holds_back(self) -> bool:
        """An unfinished line waits: record again soon."""
        return self._held_since is not None

    def finish(self) -> None:
        """The task has ended: note the last bytes and let go of everyone who waits."""
        self.record(final=True)
        self.ended = True
        self.wake()

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout: float) -> bool:
        """Until the next growth or the end; False when neither came in time."""
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

    @property
    def followed(self) -> bool:
        return bool(self._waiters)

    def _open(self) -> None:
        if self._opened:
            return
        self._opened = True
        with suppress(OSError):
            self._last = _mend(self._folder["timeline"])
        if self._last != ZERO:  # a server was here before, and may have been killed after it cut a log
            out, err = self.first
            self.first = (_skip_hole(self._folder["stdout"], out), _skip_hole(self._folder["stderr"], err))

    def _append(self, mark: Mark) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._folder["timeline"], flags, 0o600)
        except OSError:
            return
        try:
            size = os.fstat(fd).st_size
            if os.write(fd, RECORD.pack(mark.at_ms, mark.out, mark.err)) == RECORD.size:
                self._last = mark
            else:
                os.ftruncate(fd, size)  # the disk is full; the bytes will be recorded later
        except OSError:
            return
        finally:
            os.close(fd)

    def _size(self, stream: str) -> int:
        return stream_size(self._folder, stream)

    def _whole_lines(self, out: int, err: int) -> tuple[int, int]:
        """Cut both at their last line end, unless an unfinished line has waited long enough."""
        cut_out = self._line_end("stdout", self._last.out, out)
        cut_err = self._line_end("stderr", self._last.err, err)
        now = time.monotonic()
        if (cut_out, cut_err) == (out, err):
            self._held_since = None
            return out, err
        if self._held_since is None:
            self._held_since = now
        elif now - self._held_since >= _TIMEOUT:
            self._held_since = None
            return out, err
        return cut_out, cut_err

    def _line_end(self, stream: str, start: int, end: int) -> int:
        if end <= start:
            return end
        reach = min(_TAIL, end - start)
        tail = read_at(self._folder[stream], end - reach, reach)
        found = max(tail.rfind(b"\n"), tail.rfind(b"\r"))
        if found < 0:
            return end if reach == _TAIL else start  # a line longer than we look back is cut anywhere
        return end - reach + found + 1

    def kept_bytes(self) -> int:
        """Of both streams, as far as was noted."""
        return max(0, self._last.out - self.first[0]) + max(0, self._last.err - self.first[1])

    def cut(self, keep: int) -> int:
        """Keep the newest `keep` bytes of each stream, because the disk is full; how many bytes were dropped."""
        before = self.first
        self.first = (
            self._cut("stdout", self._size("stdout"), before[0], keep),
            self._cut("stderr", self._size("stderr"), before[1], keep),
        )
        self._keep_first()
        return sum(self.first) - sum(before)

    def _enforce_cap(self, out: int, err: int) -> None:
        """By the streams' own ends: on a full disk the timeline stays behind."""
        self.first = (
            self._cut("stdout", out, self.first[0], self._cap),
            self._cut("stderr", err, self.first[1], self._cap),
        )
        self._keep_first()

    def _keep_first(self) -> None:
        """On a full disk it is tried again with the next record: by then what was cut has made room."""
        if self.first != self._first_written and write_first(self._folder, *self.first):
            self._first_written = self.first

    def _cut(self, stream: str, end: int, first: int, keep: int) -> int:
        """Drop the oldest bytes of a stream above `keep`, a good piece at a time."""
        if end - first <= keep + max(keep // 16, _BLOCK):
            return first
        keep_from = (end - keep) // _BLOCK * _BLOCK
        return keep_from if punch_hole(self._folder[stream], keep_from) else first


def _mend(path: str) -> Mark:
    """The last good record. A half-written one, or zeros left by a power cut, are taken away."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        timeline = Timeline(fd)
        good = timeline.count
        while good and timeline.mark(good - 1).merged == 0:
            good -= 1
        if good * RECORD.size != os.fstat(fd).st_size:
            os.ftruncate(fd, good * RECORD.size)
        return timeline.mark(good - 1)
    finally:
        os.close(fd)


def _skip_hole(path: str, start: int) -> int:
    """The first byte from `start` on that is kept; bytes that were cut are a hole."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return start
    try:
        return os.lseek(fd, start, os.SEEK_DATA)
    except OSError:  # there is nothing but a hole, or the filesystem cannot tell
        return start
    finally:
        os.close(fd)


def stream_size(folder: TaskFolder, stream: str) -> int:
    try:
        return min(os.lstat(folder[stream]).st_size, MAX_OFFSET)
    except OSError:
        return 0


def read_at(path: str, start: int, count: int) -> bytes:
    """Up to `count` bytes; fewer where the file ends, none where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(fd, count, start)
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_first(folder: TaskFolder) -> tuple[int, int]:
    """The first bytes still kept of stdout and stderr."""
    try:
        out, err = folder.read_head("first", 100).split()
        return max(0, int(out)), max(0, int(err))
    except ValueError:
        return 0, 0


def write_first(folder: TaskFolder, out: int, err: int) -> bool:
    """False where the disk is full; then what was written before stays."""
    draft = folder["first.draft"]
    try:
        with open(draft, "w") as file:
            file.write(f"{out} {err}\n")
        os.replace(draft, folder["first"])
    except OSError:
        return False
    return True
