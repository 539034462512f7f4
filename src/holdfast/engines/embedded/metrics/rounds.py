"""What tasks use, found out for all of them together. Blocking: runs in a thread, one round at a time.

Control groups tell it where there are some; the rest, and everything where there are none, is added up over the task's
processes out of /proc. docs/explanation/metrics.md says what each figure means. A hostile task must not make a round
slow, so everything that grows with its processes and descriptors has a bound, beyond which a figure is not told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from resource import struct_rusage
from typing import NamedTuple

from holdfast.core.metrics.samples import Reading

from ..folder_content import StartNote
from ..processes import uptime
from . import process_metrics as process_figures
from .cgroup_metrics import CgroupMetrics, GroupFiles, find_files, read_group, read_processes
from .process_metrics import TooMany
from .process_trees import Forest
from .traffic import Closed, Files, Flow, NoTraffic, Traffic

_MAX_SCANNED = 50_000  # processes of this machine, where there are no control groups
_MAX_PROCESSES = 2000  # of one task, whose disks and descriptors are looked at
_MAX_DESCRIPTORS = 5000  # of one task
_MAX_CLOSED = 20_000  # sockets closed since the last round
_FEW_CLOSED = 200  # the same, when a task ends
_TRIES = 3  # at processes that come and go meanwhile
_FAIR_SECONDS = 0.05  # of one round, for dividing shared memory among processes
_SANDBOX = 2  # processes of bubblewrap, in the group of every task it runs
_BLOCK = 512  # bytes, in which the kernel counts for whoever waits for a process


class Subject(NamedTuple):
    """A task to be looked at."""

    attempt_id: str
    note: StartNote
    runner: int  # its pid; all processes of the task descend from it, unless they have run away
    helpers: tuple[int, ...] = ()  # of sessions
    cookie: str = ""  # by which those that have run away are known


class MonotonicCounter:
    """A counter added up over processes. When some end whose part nobody takes over, it goes on from where it stood."""

    def __init__(self) -> None:
        self._found = self._lost = 0.0

    def read(self, found: float, *, sure: bool = True) -> float:
        """`sure`: nobody came or went while we looked; else a fall may be mere chance, and nothing is made of it."""
        if found >= self._found or sure:
            self._lost += max(0.0, self._found - found)
            self._found = found
        return self._found + self._lost


@dataclass(slots=True)
class Spare:
    """Time that a round has for what may as well wait."""

    seconds: float


@dataclass(slots=True, eq=False)
class Track:
    """What is remembered of one task between two rounds."""

    files: GroupFiles
    cpu: MonotonicCounter = field(default_factory=MonotonicCounter)
    disk_read: MonotonicCounter = field(default_factory=MonotonicCounter)
    disk_written: MonotonicCounter = field(default_factory=MonotonicCounter)
    pids: frozenset[int] = frozenset()
    fairness: float = 1.0  # memory with each page divided among its users, for each byte counted in full
    fair_at: float = 0.0  # when that was found out
    swap: int | None = None
    peak: int = 0
    gpu_opened: bool | None = None  # so far
    last: Reading | None = None


class Rounds:
    def __init__(self) -> None:
        self._tracks: dict[str, Track] = {}
        self._forest = Forest()
        self._traffic = Traffic()
        self._turn = threading.Lock()
        self._is_shut = False
        self.closed: Closed | None = None  # set from outside

    # --- one round ------------------------------------------------------------------------------------------------

    def round(self, running: Sequence[Subject], asked: Collection[str]) -> dict[str, Reading]:
        """Readings of those that are asked for. `running`: all tasks that there are, lest what is theirs be taken for
        nobody's. Those whose processes are not to be found are left out. GPUs are not looked at."""
        with self._in_turn():
            return self._round(running, asked)

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        try:
            with self._turn:
                yield
        finally:
            if self._is_shut:
                self.close()

    def _round(self, running: Sequence[Subject], asked: Collection[str]) -> dict[str, Reading]:
        tracks = {each.attempt_id: self._track(each) for each in running}
        subjects = [each for each in running if each.attempt_id in asked or _has_no_number(tracks[each.attempt_id])]
        pids = self._processes(subjects, tracks)
        readings = {}
        spare = Spare(_FAIR_SECONDS)
        for each in sorted(subjects, key=lambda each: tracks[each.attempt_id].fair_at):  # the oldest first
            if each.attempt_id in pids and each.attempt_id in asked:
                track, members = tracks[each.attempt_id], pids[each.attempt_id]
                readings[each.attempt_id] = _look(each, track, members, self._forest, spare)
        for name, track in tracks.items():
            if name not in readings and track.last is None:
                self._tracks.pop(name, None)  # it has not begun, or ended meanwhile
        return self._with_traffic(readings, tracks, pids)

    def close(self) -> None:
        """Does not wait for a round that is under way: then that one closes what it uses, if it ever comes back."""
        self._is_shut = True
        if self._turn.acquire(blocking=False):
            try:
                closed, self.closed = self.closed, None
            finally:
                self._turn.release()
            if closed is not None:
                closed.close()

    def _track(self, subject: Subject) -> Track:
        track = self._tracks.get(subject.attempt_id)
        if track is None:
            track = self._tracks[subject.attempt_id] = _new_track(subject)
        return track

    def _processes(self, subjects: Sequence[Subject], tracks: Mapping[str, Track]) -> dict[str, list[int]]:
        """Of each task. The machine's are looked through only where groups do not tell."""
        found = {}
        homeless = []
        for each in subjects:
            files = tracks[each.attempt_id].files
            pids = read_processes(files)
            if pids:
                found[each.attempt_id] = pids
            if not files.processes or (pids and not _counts_cpu(files)):
                homeless.append(each)
        if homeless:
            found.update(self._forest.grow(homeless, _MAX_SCANNED))
        return found

    def _with_traffic(
        self, readings: dict[str, Reading], tracks: Mapping[str, Track], pids: Mapping[str, Sequence[int]]
    ) -> dict[str, Reading]:
        flows = self._by_sockets(list(tracks), tracks, pids) if readings else {}
        for name, reading in readings.items():
            readings[name] = tracks[name].last = _with_flow(reading, flows.get(name))
        return readings

    def _by_sockets(
        self, names: Sequence[str], tracks: Mapping[str, Track], pids: Mapping[str, Sequence[int]]
    ) -> dict[str, Flow]:
        numbers = {tracks[name].files.number: name for name in names if tracks[name].files.number}
        homeless = [name for name in names if not tracks[name].files.number]
        try:
            unknown = self._traffic.look(names, numbers, lambda: _find_sockets(homeless, pids))
        except NoTraffic:
            unknown = names
        self._count_closed(_MAX_CLOSED)
        flows = {name: self._traffic.of(name) for name in names if name not in unknown}
        return {name: flow for name, flow in flows.items() if flow is not None}

    def _count_closed(self, most: int) -> None:
        if self.closed is not None:
            self.closed.hear()
            self._traffic.count_closed(self.closed.take(most))

    # --- others ---------------------------------------------------------------------------------------------------

    def foreign_processes(self, subjects: Sequence[Subject], pids: Iterable[int]) -> dict[int, bool | None]:
        """Of each process, whether it is none of these tasks'; None where that cannot be seen."""
        with self._in_turn():
            tracks = {each.attempt_id: self._tracks.get(each.attempt_id) or _new_track(each) for each in subjects}
            found = self._processes(subjects, tracks)
        members = set[int]().union(*found.values())
        whole = all(each.attempt_id in found for each in subjects)
        return {pid: False if pid in members else True if whole and _is_there(pid) else None for pid in pids}

    # --- the end of a task ----------------------------------------------------------------------------------------

    def last(self, attempt_id: str, note: StartNote | None, at: float, waited: struct_rusage | None) -> Reading | None:
        """What it used in all, as far as it can still be told: after its end, while its control groups are there.
        `waited`: what the kernel told whoever waited for its runner. Quick, also while a round is under way."""
        track = self._tracks.get(attempt_id)
        try:
            return self._last(attempt_id, track, note, at, waited) if note is not None else None
        finally:
            self.forget(attempt_id)

    def _last(
        self, attempt_id: str, track: Track | None, note: StartNote, at: float, waited: struct_rusage | None
    ) -> Reading | None:
        files = track.files if track else find_files(note.cgroups)
        figures = read_group(files)
        before = self._before(attempt_id, track)
        ended = _ended(figures, before, waited if not note.sandbox else None, at)
        if ended is None or track is None:
            return ended
        peak = max(ended.memory_peak or 0, track.peak)
        return replace(ended, memory_peak=peak or None, gpu_opened=track.gpu_opened)

    def forget(self, attempt_id: str) -> None:
        """From any thread, also while a round is under way."""
        self._tracks.pop(attempt_id, None)
        self._traffic.drop(attempt_id)
        self._forest.drop(attempt_id)

    def _before(self, attempt_id: str, track: Track | None) -> Reading | None:
        """The last reading, with what its sockets came to when they were closed."""
        reading = track.last if track else None
        if reading is None or reading.net_in is None or not self._turn.acquire(blocking=False):
            return reading
        try:
            self._count_closed(_FEW_CLOSED)
            return _with_flow(reading, self._traffic.of(attempt_id))
        finally:
            self._turn.release()


# --- one task -----------------------------------------------------------------------------------------------------


def _new_track(subject: Subject) -> Track:
    return Track(find_files(subject.note.cgroups))


def _look(subject: Subject, track: Track, pids: Sequence[int], forest: Forest, spare: Spare) -> Reading:
    note, group = subject.note, read_group(track.files)
    at = uptime()
    cpu = group.cpu
    if cpu is None:
        found, sure = forest.cpu(pids, track.pids)
        cpu = track.cpu.read(found, sure=sure)
    memory = group.memory
    if memory is None:
        memory = _add_memory(track, pids, spare)
    track.peak = max(track.peak, memory, group.memory_peak or 0)
    disk_read, disk_written = _add_disks(track, pids)
    track.pids = frozenset(pids)
    opened = _opened_gpu(pids) if note.gpus else None
    track.gpu_opened = opened or track.gpu_opened if opened is not None else track.gpu_opened
    return Reading(
        at=at,
        cpu=cpu,
        throttled=group.throttled,
        memory=memory,
        memory_peak=track.peak,
        memory_limit=group.memory_limit or note.memory or None,
        swap=group.swap if group.memory is not None else track.swap,
        disk_read=disk_read,
        disk_written=disk_written,
        disk_wait=group.disk_wait,
        processes=max(0, len(pids) - (_SANDBOX if note.sandbox else 0)),
        gpu_opened=opened,
    )


def _with_flow(reading: Reading, flow: Flow | None) -> Reading:
    return reading if flow is None else replace(reading, net_in=flow.received, net_out=flow.sent)


def _has_no_number(track: Track) -> bool:
    return not track.files.number


def _counts_cpu(files: GroupFiles) -> bool:
    return bool(files.cpu_stat or files.cpu_usage)


def _add_memory(track: Track, pids: Iterable[int], spare: Spare) -> int:
    """Where nobody counts it: what each process has for itself, corrected by what they share. The correction costs, so
    it is found out anew when there is time, and the same until then."""
    sizes = {pid: process_figures.own_memory(pid) for pid in pids}
    full = sum(sizes.values())
    if spare.seconds > 0 and full:
        began = time.perf_counter()
        fair, track.swap = process_figures.divide(sizes)
        track.fairness, track.fair_at = fair / full, uptime()
        spare.seconds -= time.perf_counter() - began
    return int(full * track.fairness)


def _add_disks(track: Track, pids: Sequence[int]) -> tuple[int | None, int | None]:
    """None when there are too many processes, or one may not be looked at."""
    if len(pids) > _MAX_PROCESSES:
        return None, None
    for attempt in range(_TRIES):
        ordered = sorted({*pids, *(pid for pid in track.pids.difference(pids) if _is_remains(pid))})
        try:
            read, written, sure = _sum_disks(ordered)
        except PermissionError:
            return None, None
        if sure or attempt == _TRIES - 1:
            break
    return int(track.disk_read.read(read, sure=sure)), int(track.disk_written.read(written, sure=sure))


def _is_there(pid: int) -> bool:
    return process_figures.read_stat(pid) is not None


def _is_remains(pid: int) -> bool:
    """It has left its group, and what it counted is not its parent's yet."""
    stat = process_figures.read_stat(pid)
    return stat is not None and stat.remains


def _sum_disks(pids: Iterable[int]) -> tuple[int, int, bool]:
    read = written = 0
    sure = True
    for pid in pids:
        try:
            disk = process_figures.read_disk(pid)
        except OSError as error:
            # Of an ended process only root may know; once waited for, it counts with its parent.
            if isinstance(error, PermissionError) and not _is_remains(pid):
                raise
            sure = False
            continue
        read += disk.read
        written += disk.written
    return read, written, sure


def _opened_gpu(pids: Sequence[int]) -> bool | None:
    try:
        return any(map(process_figures.is_gpu, process_figures.open_files(pids[:_MAX_PROCESSES], _MAX_DESCRIPTORS)))
    except (TooMany, OSError):
        return None


def _find_sockets(names: Iterable[str], pids: Mapping[str, Sequence[int]]) -> Files:
    owners: dict[int, str] = {}
    unknown = []
    for name in names:
        if name not in pids:
            unknown.append(name)
            continue
        try:
            for opened in process_figures.open_files(pids[name][:_MAX_PROCESSES], _MAX_DESCRIPTORS):
                number = process_figures.socket_number(opened)
                if number is not None:
                    owners.setdefault(number, name)
        except (TooMany, OSError):
            unknown.append(name)
    return Files(owners, unknown)


def _ended(figures: CgroupMetrics, before: Reading | None, waited: struct_rusage | None, at: float) -> Reading | None:
    """Put together from what its group, the last round and the wait for it know; None when none of them does."""
    if figures.cpu is None and before is None and waited is None:
        return None
    last = before or Reading(at=at, cpu=0.0, memory=0)
    cpu, read, written, peak = last.cpu, last.disk_read, last.disk_written, figures.memory_peak or last.memory_peak
    if waited is not None:
        cpu = max(cpu, waited.ru_utime + waited.ru_stime)
        read = max(read or 0, waited.ru_inblock * _BLOCK)
        written = max(written or 0, waited.ru_oublock * _BLOCK)
    return replace(
        last,
        at=at,
        cpu=cpu if figures.cpu is None else figures.cpu,
        throttled=last.throttled if figures.throttled is None else figures.throttled,
        memory=0,
        memory_peak=peak,
        memory_limit=figures.memory_limit or last.memory_limit,
        disk_read=read,
        disk_written=written,
        disk_wait=last.disk_wait if figures.disk_wait is None else figures.disk_wait,
        processes=0,
        gpus=(),
    )
