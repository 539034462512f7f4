"""The figures of tasks: a file for each try of a task, below HOME/metrics, written sample by sample.

Samples carry the wall clock's time; their lengths come from a clock that does not jump. The first ring takes samples as
they come, the longer ones the means of whole intervals. What has not been a whole interval yet is not written; it is
found again from the samples in the first ring.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import ParamSpec, TypeVar

from holdfast.core.attempt_id import job_id_of
from holdfast.core.metrics.samples import RINGS, Current, Reading, Ring, Sample, TaskSummary
from holdfast.core.metrics.sampling import count, interval, last_reading, origin, sample, slot_of, slots

from .series_format import (
    MAX_GPUS,
    Head,
    head_place,
    head_size,
    next_head,
    pack_head,
    pack_record,
    record_place,
    record_size,
    ring_place,
    unpack_head,
    unpack_records,
)

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

SHARDS = 256
QUIET = 60.0  # seconds between two lines of the log that tell of a disk that takes nothing
_SUFFIX = ".figures"
_MAX_RING_LENGTH = max(ring.seconds for ring in RINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One look at a task."""

    attempt_id: str
    reading: Reading
    at: float  # seconds since 1970
    age: float  # seconds since it began, by a clock that does not jump


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What is kept of a task: a list of points per ring, oldest first, and the summary."""

    rings: dict[str, list[Sample]]
    summary: TaskSummary
    reading: Reading  # the last one


@dataclass(slots=True)
class _Open:
    """A task that goes on, as its file has it."""

    head: Head
    recent: deque[Sample] = field(default_factory=deque)  # as far back as the longest interval reaches

    def remember(self, taken: Sample) -> None:
        self.recent.append(taken)
        while abs(taken.at - self.recent[0].at) > 2 * _MAX_RING_LENGTH:
            self.recent.popleft()


class SeriesFiles:
    """All work on the files is done by one thread, in the order it was asked for; so a reader finds what was told
    before it asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._folder = str(folder)  # a Path for each file would cost more than writing it
        self.newest: dict[str, Current] = {}  # of tasks that run
        self._open: dict[str, _Open] = {}
        self._told_at: float | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="figures")

    def soon(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have one of the methods below done by the thread."""
        return self._thread.submit(work, *args, **kwargs)

    async def ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self.soon(work, *args, **kwargs))

    def close(self) -> None:
        """Once what was asked for is done."""
        self._thread.shutdown()

    # -- writing

    def take(self, looks: Sequence[Taken]) -> None:
        """Keep what was found. A disk that takes nothing costs figures, never more."""
        for look in looks:
            try:
                self._take(look)
            except OSError as error:
                self._tell(error)

    def end(self, attempt_id: str, used: Reading | None, seconds: float | None, at: float) -> None:
        """It has ended, after so many seconds of work; with what it used in all, where that is known. Harmless on one
        that ended before."""
        try:
            self._end(attempt_id, used, seconds, at)
        except OSError as error:
            self._tell(error)
        finally:
            self._open.pop(attempt_id, None)
            self.newest.pop(attempt_id, None)

    def _take(self, look: Taken) -> None:
        series = self._opened(look.attempt_id)
        if series is not None and series.head.summary.ended:
            return
        before = series.head.reading if series else origin(look.reading, look.age)
        if look.reading.at <= before.at:
            before = look.reading  # its clock began anew: nothing is known of the time between
        self._add(look.attempt_id, series, before, look.reading, look.at)

    def _end(self, attempt_id: str, used: Reading | None, seconds: float | None, at: float) -> None:
        series = self._opened(attempt_id)
        if series is None and used is None:
            return
        if series is not None and series.head.summary.ended:
            return
        if used is not None:
            worked = series.head.summary.seconds if series else 0.0
            more = max(0.0, (seconds or 0.0) - worked)
            last = last_reading(series.head.reading if series else None, used, more)
            before = series.head.reading if series else origin(last, more)
            self._add(attempt_id, series, before, last, at, ended=True)
        elif series is not None:
            summary = replace(series.head.summary, ended=True)
            self._write(attempt_id, series, _rest(series), reading=series.head.reading, summary=summary)

    def _add(
        self, attempt_id: str, series: _Open | None, before: Reading, after: Reading, at: float, *, ended: bool = False
    ) -> None:
        taken = sample(before, after, at)
        known = series.head.summary if series else TaskSummary()
        summary = count(known, before, after, taken)
        wanted = min(MAX_GPUS, len(summary.gpus))
        if series is None:
            series = _Open(Head(gpus=wanted, origin=at, reading=after, summary=summary))
            self._open[attempt_id] = series
        if wanted > series.head.gpus:
            self._widen(attempt_id, series, wanted)
        finished = self._finished(series, taken) if taken else []
        if taken is not None:
            self.newest[attempt_id] = Current(sample=taken, reading=after)
        if ended:
            finished += _rest(series)
        self._write(attempt_id, series, finished, reading=after, summary=replace(summary, ended=ended))

    def _finished(self, series: _Open, taken: Sample) -> list[tuple[int, Sample]]:
        """What is to be written, with its ring: the sample, and the intervals that it ends."""
        last = series.recent[-1] if series.recent else None
        known = [*series.recent, taken]
        found = [(0, taken)]
        for number, ring in enumerate(RINGS[1:], 1):
            now = slot_of(taken, ring.seconds)
            passed = {slot for slot, _ in slots(taken, ring.seconds)}
            passed |= {slot_of(last, ring.seconds)} if last else set()
            means = (interval(known, slot, ring.seconds) for slot in sorted(passed - {now}))
            found += [(number, each) for each in means if each is not None]
        series.remember(taken)
        return found

    def _write(
        self,
        attempt_id: str,
        series: _Open,
        records: list[tuple[int, Sample]],
        *,
        reading: Reading,
        summary: TaskSummary,
    ) -> None:
        counts = list(series.head.counts)
        head = next_head(series.head, reading=reading, summary=summary)
        pieces = []
        for ring, each in records:
            data = pack_record(each, head)
            if data is not None:
                pieces.append((record_place(head.gpus, ring, counts[ring]), data))
                counts[ring] += 1
        series.head = head = replace(head, counts=tuple(counts))
        handle = self._handle(self._file(attempt_id))
        try:
            _write_at(handle, pack_head(head), head_place(head))
            for place, data in pieces:
                _write_at(handle, data, place)
        finally:
            os.close(handle)

    def _widen(self, attempt_id: str, series: _Open, gpus: int) -> None:
        """A task that shows more GPUs than before: all its records get room for them."""
        kept = self._read_rings(attempt_id, series.head, {ring.name for ring in RINGS})
        head = replace(series.head, gpus=gpus, counts=tuple(len(kept[ring.name]) for ring in RINGS))
        path = self.path(attempt_id)
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        handle = self._handle(str(draft))
        try:
            for copy in (head, next_head(head)):
                _write_at(handle, pack_head(copy), head_place(copy))
            for number, ring in enumerate(RINGS):
                data = b"".join(filter(None, (pack_record(each, head) for each in kept[ring.name])))
                _write_at(handle, data, ring_place(gpus, number))
        finally:
            os.close(handle)
        draft.rename(path)
        series.head = next_head(head)

    def _handle(self, path: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, flags, 0o600)

    def _tell(self, error: OSError) -> None:
        now = time.monotonic()
        if self._told_at is None or now - self._told_at > QUIET:
            self._told_at = now
            log.warning("could not keep figures of tasks", extra={"event": "figures", "error": str(error)})

    # -- reading

    def read(self, attempt_id: str, *names: str) -> Series | None:
        """Those rings of it, or all. None: there are no figures of it, or what is there cannot be read."""
        head = self._head(attempt_id)
        if head is None:
            return None
        wanted = names or tuple(ring.name for ring in RINGS)
        goes_on = not head.summary.ended
        kept = self._read_rings(attempt_id, head, {*wanted, RINGS[0].name} if goes_on else wanted)
        if goes_on:
            rings = [ring for ring in RINGS[1:] if ring.name in wanted]
            for ring, each in _unfinished(kept[RINGS[0].name], rings):
                kept[ring.name] = _with(kept[ring.name], each, ring)
        return Series(rings={name: kept[name] for name in wanted}, summary=head.summary, reading=head.reading)

    def summary(self, attempt_id: str) -> TaskSummary | None:
        head = self._head(attempt_id)
        return head.summary if head else None

    def path(self, attempt_id: str) -> Path:
        return Path(self._file(attempt_id))

    def job_folder(self, job_id: str) -> Path:
        return Path(self._job_folder(job_id))

    def _file(self, attempt_id: str) -> str:
        return f"{self._job_folder(job_id_of(attempt_id))}/{attempt_id}{_SUFFIX}"

    def _job_folder(self, job_id: str) -> str:
        shard = blake2b(job_id.encode(), digest_size=1).hexdigest()
        return f"{self._folder}/{shard}/{job_id}"

    def _head(self, attempt_id: str) -> Head | None:
        known = self._open.get(attempt_id)
        if known is not None:
            return known.head
        try:
            return unpack_head(self._first_bytes(attempt_id))
        except OSError:
            return None

    def _first_bytes(self, attempt_id: str) -> bytes:
        with open(self._file(attempt_id), "rb", buffering=0) as file:
            return file.read(2 * head_size(MAX_GPUS))

    def _opened(self, attempt_id: str) -> _Open | None:
        """From memory, else as an earlier server left it. A file that is none of ours is begun anew."""
        known = self._open.get(attempt_id)
        if known is not None:
            return known
        try:
            head = unpack_head(self._first_bytes(attempt_id))
        except FileNotFoundError:
            return None
        if head is None:
            log.warning("began figures of a task anew", extra={"event": "figures", "attempt": attempt_id})
            self.path(attempt_id).unlink(missing_ok=True)
            return None
        series = _Open(head)
        first = RINGS[0].name
        for each in self._read_rings(attempt_id, head, {first})[first]:
            series.remember(each)
        if not head.summary.ended:
            self._open[attempt_id] = series
        return series

    def _read_rings(self, attempt_id: str, head: Head, names: Collection[str]) -> dict[str, list[Sample]]:
        rings: dict[str, list[Sample]] = {name: [] for name in names}
        with suppress(OSError), open(self._file(attempt_id), "rb") as file:
            for number, ring in enumerate(RINGS):
                if ring.name in names:
                    file.seek(ring_place(head.gpus, number))
                    data = file.read(min(ring.points, head.counts[number]) * record_size(head.gpus))
                    rings[ring.name] = _in_order(unpack_records(data, head))
        return rings

    # -- removing

    def shard(self, number: int) -> list[str]:
        """The jobs whose figures lie in one of the SHARDS parts."""
        try:
            return sorted(entry.name for entry in (self.folder / f"{number:02x}").iterdir())
        except OSError:
            return []

    def remove_job(self, job_id: str) -> None:
        shutil.rmtree(self.job_folder(job_id), ignore_errors=True)

    def remove_old(self, job_id: str, before: float) -> None:
        """Files of its tasks that were last written before that time, seconds since 1970."""
        folder = self.job_folder(job_id)
        for entry in _entries(folder):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    Path(entry.path).unlink()
        with suppress(OSError):  # not while something is in it
            folder.rmdir()


def _rest(series: _Open) -> list[tuple[int, Sample]]:
    """Of a task that has ended: intervals that were not over, as far as they went."""
    return [(RINGS.index(ring), each) for ring, each in _unfinished(series.recent, RINGS[1:])]


def _unfinished(samples: Sequence[Sample] | deque[Sample], rings: Sequence[Ring]) -> Iterator[tuple[Ring, Sample]]:
    """The interval of each of these longer rings that the newest sample lies in, so far."""
    if samples:
        for ring in rings:
            found = interval(samples, slot_of(samples[-1], ring.seconds), ring.seconds)
            if found is not None:
                yield ring, found


def _with(points: list[Sample], newest: Sample, ring: Ring) -> list[Sample]:
    slot = slot_of(newest, ring.seconds)
    return _in_order([*(each for each in points if slot_of(each, ring.seconds) != slot), newest])


def _in_order(samples: Collection[Sample]) -> list[Sample]:
    """Oldest first; of two that tell of the same time, after the clock was set back, the later one stays."""
    return sorted({each.at: each for each in samples}.values(), key=lambda each: each.at)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _write_at(handle: int, data: bytes, place: int) -> None:
    while data:
        written = os.pwrite(handle, data, place)
        data, place = data[written:], place + written
