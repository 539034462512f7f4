"""Measures the usage of all tasks together. Blocking: runs in a thread, one round at a time.

Cgroups provide it where they exist; the rest is summed over the task's processes from /proc.
docs/explanation/metrics.md defines each metric. A hostile task must not slow down a round, so everything that grows
with its processes and descriptors is limited; above the limit the metric is missing.
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
from ..processes import read_uptime
from . import process_metrics as process_figures
from .cgroup_metrics import CgroupFiles, CgroupMetrics, find_cgroup_files, read_cgroup_metrics, read_cgroup_pids
from .process_metrics import TooManyDescriptors
from .process_trees import ProcessTrees
from .traffic import ClosedSocketMonitor, SocketOwners, TrafficCounters, TrafficMeter, TrafficUnavailable

_MAX_SCANNED_PROCESSES = 50_000  # processes of this machine, without cgroups
_MAX_TASK_PROCESSES = 2000  # of one task, whose disks and descriptors are read
_MAX_DESCRIPTORS = 5000  # of one task
_MAX_CLOSED_SOCKETS = 20_000  # sockets closed since the last round
_MAX_CLOSED_SOCKETS_AT_END = 200  # the same, when a task ends
_MAX_TRIES = 3  # when processes come and go in the meantime
_MEMORY_TIMEOUT = 0.05  # of one round, for dividing shared memory among processes
_SANDBOX_PROCESS_COUNT = 2  # bubblewrap's processes, in the cgroup of every sandboxed task
_BLOCK_SIZE = 512  # bytes: the kernel's unit in rusage


class MeasuredTask(NamedTuple):
    """A task to measure."""

    attempt_id: str
    note: StartNote
    runner: int  # its pid; all processes of the task descend from it, unless they are detached
    helpers: tuple[int, ...] = ()  # of sessions
    cookie: str = ""  # identifies detached processes


class MonotonicCounter:
    """A counter summed over processes. It never falls when processes exit."""

    def __init__(self) -> None:
        self._found = self._lost = 0.0

    def update(self, found: float, *, sure: bool = True) -> float:
        """Update it. `sure`: no process came or went during the scan; else a fall is ignored."""
        if found >= self._found or sure:
            self._lost += max(0.0, self._found - found)
            self._found = found
        return self._found + self._lost


@dataclass(slots=True)
class TimeBudget:
    """The time that a round has for optional work."""

    seconds: float


@dataclass(slots=True, eq=False)
class TaskSamplingState:
    """The state of one task between two rounds."""

    files: CgroupFiles
    cpu: MonotonicCounter = field(default_factory=MonotonicCounter)
    disk_read: MonotonicCounter = field(default_factory=MonotonicCounter)
    disk_written: MonotonicCounter = field(default_factory=MonotonicCounter)
    pids: frozenset[int] = frozenset()
    memory_ratio: float = 1.0  # memory with each page divided among its users, per byte counted in full
    memory_ratio_at: float = 0.0  # when that was measured
    swap: int | None = None
    peak: int = 0
    gpu_opened: bool | None = None  # so far
    last: Reading | None = None


class MetricsSampler:
    def __init__(self) -> None:
        self._states: dict[str, TaskSamplingState] = {}
        self._process_trees = ProcessTrees()
        self._traffic = TrafficMeter()
        self._lock = threading.Lock()
        self._is_closed = False
        self.closed_sockets: ClosedSocketMonitor | None = None  # set by the owner

    # --- one round ------------------------------------------------------------------------------------------------

    def measure_tasks(self, running: Sequence[MeasuredTask], asked: Collection[str]) -> dict[str, Reading]:
        """Return the readings of the tasks in `asked`. `running`: all existing tasks, so that each process and socket
        finds its owner. Tasks without processes are left out. GPUs are not measured."""
        with self._lock_round():
            return self._measure_tasks(running, asked)

    @contextmanager
    def _lock_round(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        finally:
            if self._is_closed:
                self.close()

    def _measure_tasks(self, running: Sequence[MeasuredTask], asked: Collection[str]) -> dict[str, Reading]:
        tracks = {each.attempt_id: self._get_or_create_state(each) for each in running}
        subjects = [each for each in running if each.attempt_id in asked or not tracks[each.attempt_id].files.cgroup_id]
        pids = self._find_processes(subjects, tracks)
        readings = {}
        spare = TimeBudget(_MEMORY_TIMEOUT)
        for each in sorted(subjects, key=lambda each: tracks[each.attempt_id].memory_ratio_at):  # the oldest first
            if each.attempt_id in pids and each.attempt_id in asked:
                track, members = tracks[each.attempt_id], pids[each.attempt_id]
                readings[each.attempt_id] = _measure_task(each, track, members, self._process_trees, spare)
        for name, track in tracks.items():
            if name not in readings and track.last is None:
                self._states.pop(name, None)  # it has not started, or has ended
        return self._add_traffic(readings, tracks, pids)

    def close(self) -> None:
        """Close without waiting for a running round: that one closes its files itself, if it ever returns."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                closed, self.closed_sockets = self.closed_sockets, None
            finally:
                self._lock.release()
            if closed is not None:
                closed.close()

    def _get_or_create_state(self, subject: MeasuredTask) -> TaskSamplingState:
        track = self._states.get(subject.attempt_id)
        if track is None:
            track = self._states[subject.attempt_id] = _make_state(subject)
        return track

    def _find_processes(
        self, subjects: Sequence[MeasuredTask], tracks: Mapping[str, TaskSamplingState]
    ) -> dict[str, list[int]]:
        """Return the processes of each task. The machine is only scanned for tasks without cgroups."""
        found = {}
        homeless = []
        for each in subjects:
            files = tracks[each.attempt_id].files
            pids = read_cgroup_pids(files)
            if pids:
                found[each.attempt_id] = pids
            if not files.processes or (pids and not files.cpu_stat and not files.cpu_usage):
                homeless.append(each)
        if homeless:
            found.update(self._process_trees.find_processes(homeless, _MAX_SCANNED_PROCESSES))
        return found

    def _add_traffic(
        self, readings: dict[str, Reading], tracks: Mapping[str, TaskSamplingState], pids: Mapping[str, Sequence[int]]
    ) -> dict[str, Reading]:
        flows = self._measure_traffic(list(tracks), tracks, pids) if readings else {}
        for name, reading in readings.items():
            readings[name] = tracks[name].last = _add_traffic_counters(reading, flows.get(name))
        return readings

    def _measure_traffic(
        self, names: Sequence[str], tracks: Mapping[str, TaskSamplingState], pids: Mapping[str, Sequence[int]]
    ) -> dict[str, TrafficCounters]:
        numbers = {tracks[name].files.cgroup_id: name for name in names if tracks[name].files.cgroup_id}
        homeless = [name for name in names if not tracks[name].files.cgroup_id]
        try:
            unknown = self._traffic.update_totals(names, numbers, lambda: _find_socket_owners(homeless, pids))
        except TrafficUnavailable:
            unknown = names
        self._add_closed_sockets(_MAX_CLOSED_SOCKETS)
        flows = {name: self._traffic.get_total(name) for name in names if name not in unknown}
        return {name: flow for name, flow in flows.items() if flow is not None}

    def _add_closed_sockets(self, most: int) -> None:
        if self.closed_sockets is not None:
            self.closed_sockets.read_events()
            self._traffic.add_closed_sockets(self.closed_sockets.pop_sockets(most))

    def classify_processes(self, subjects: Sequence[MeasuredTask], pids: Iterable[int]) -> dict[int, bool | None]:
        """Return for each process whether it belongs to none of these tasks; None if unknown."""
        with self._lock_round():
            tracks = {each.attempt_id: self._states.get(each.attempt_id) or _make_state(each) for each in subjects}
            found = self._find_processes(subjects, tracks)
        members = set[int]().union(*found.values())
        complete = all(each.attempt_id in found for each in subjects)
        return {
            pid: False if pid in members else True if complete and process_figures.read_process_stat(pid) else None
            for pid in pids
        }

    # --- the end of a task ----------------------------------------------------------------------------------------

    def read_final_usage(
        self, attempt_id: str, note: StartNote | None, at: float, waited: struct_rusage | None
    ) -> Reading | None:
        """Return its total usage after its end, while its cgroups still exist. `waited`: the rusage of its runner.
        Fast, also during a round."""
        track = self._states.get(attempt_id)
        try:
            return self._read_final_usage(attempt_id, track, note, at, waited) if note is not None else None
        finally:
            self.drop_task(attempt_id)

    def _read_final_usage(
        self, attempt_id: str, track: TaskSamplingState | None, note: StartNote, at: float, waited: struct_rusage | None
    ) -> Reading | None:
        files = track.files if track else find_cgroup_files(note.cgroups)
        group_metrics = read_cgroup_metrics(files)
        before = self._get_last_reading(attempt_id, track)
        ended = _combine_final_usage(group_metrics, before, waited if not note.sandbox else None, at)
        if ended is None or track is None:
            return ended
        peak = max(ended.memory_peak or 0, track.peak)
        return replace(ended, memory_peak=peak or None, gpu_opened=track.gpu_opened)

    def drop_task(self, attempt_id: str) -> None:
        """Thread-safe, also during a round."""
        self._states.pop(attempt_id, None)
        self._traffic.drop_owner(attempt_id)
        self._process_trees.drop_task(attempt_id)

    def _get_last_reading(self, attempt_id: str, track: TaskSamplingState | None) -> Reading | None:
        """Return the last reading, with the traffic of its closed sockets."""
        reading = track.last if track else None
        if reading is None or reading.net_in is None or not self._lock.acquire(blocking=False):
            return reading
        try:
            self._add_closed_sockets(_MAX_CLOSED_SOCKETS_AT_END)
            return _add_traffic_counters(reading, self._traffic.get_total(attempt_id))
        finally:
            self._lock.release()


# --- one task -----------------------------------------------------------------------------------------------------


def _make_state(subject: MeasuredTask) -> TaskSamplingState:
    return TaskSamplingState(find_cgroup_files(subject.note.cgroups))


def _measure_task(
    subject: MeasuredTask, track: TaskSamplingState, pids: Sequence[int], forest: ProcessTrees, spare: TimeBudget
) -> Reading:
    note, group = subject.note, read_cgroup_metrics(track.files)
    at = read_uptime()
    cpu = group.cpu
    if cpu is None:
        found, sure = forest.sum_cpu_seconds(pids, track.pids)
        cpu = track.cpu.update(found, sure=sure)
    memory = group.memory
    if memory is None:
        memory = _measure_memory(track, pids, spare)
    track.peak = max(track.peak, memory, group.memory_peak or 0)
    disk_read, disk_written = _sum_task_disk_counters(track, pids)
    track.pids = frozenset(pids)
    opened = _has_opened_gpu(pids) if note.gpus else None
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
        processes=max(0, len(pids) - (_SANDBOX_PROCESS_COUNT if note.sandbox else 0)),
        gpu_opened=opened,
    )


def _add_traffic_counters(reading: Reading, flow: TrafficCounters | None) -> Reading:
    return reading if flow is None else replace(reading, net_in=flow.received, net_out=flow.sent)


def _measure_memory(track: TaskSamplingState, pids: Iterable[int], spare: TimeBudget) -> int:
    """The correction for shared pages is expensive, so it is only renewed when there is time."""
    sizes = {pid: process_figures.read_anonymous_memory(pid) for pid in pids}
    full = sum(sizes.values())
    if spare.seconds > 0 and full:
        began = time.perf_counter()
        fair, track.swap = process_figures.sum_proportional_memory(sizes)
        track.memory_ratio, track.memory_ratio_at = fair / full, read_uptime()
        spare.seconds -= time.perf_counter() - began
    return int(full * track.memory_ratio)


def _sum_task_disk_counters(track: TaskSamplingState, pids: Sequence[int]) -> tuple[int | None, int | None]:
    """Return None if there are too many processes, or access to one is denied."""
    if len(pids) > _MAX_TASK_PROCESSES:
        return None, None
    for attempt in range(_MAX_TRIES):
        ordered = sorted({*pids, *(pid for pid in track.pids.difference(pids) if _is_zombie(pid))})
        try:
            read, written, sure = _sum_disk_counters(ordered)
        except PermissionError:
            return None, None
        if sure or attempt == _MAX_TRIES - 1:
            break
    return int(track.disk_read.update(read, sure=sure)), int(track.disk_written.update(written, sure=sure))


def _is_zombie(pid: int) -> bool:
    """Return whether it has left its cgroup, but is not counted in its parent yet."""
    stat = process_figures.read_process_stat(pid)
    return stat is not None and stat.is_zombie


def _sum_disk_counters(pids: Iterable[int]) -> tuple[int, int, bool]:
    read = written = 0
    sure = True
    for pid in pids:
        try:
            disk = process_figures.read_disk_counters(pid)
        except OSError as error:
            # Only root can read an exited process; once waited for, it counts with its parent.
            if isinstance(error, PermissionError) and not _is_zombie(pid):
                raise
            sure = False
            continue
        read += disk.read
        written += disk.written
    return read, written, sure


def _has_opened_gpu(pids: Sequence[int]) -> bool | None:
    try:
        return any(
            map(
                process_figures.is_gpu_device,
                process_figures.iter_descriptor_targets(pids[:_MAX_TASK_PROCESSES], _MAX_DESCRIPTORS),
            )
        )
    except (TooManyDescriptors, OSError):
        return None


def _find_socket_owners(names: Iterable[str], pids: Mapping[str, Sequence[int]]) -> SocketOwners:
    owners: dict[int, str] = {}
    unknown = []
    for name in names:
        if name not in pids:
            unknown.append(name)
            continue
        try:
            for opened in process_figures.iter_descriptor_targets(pids[name][:_MAX_TASK_PROCESSES], _MAX_DESCRIPTORS):
                number = process_figures.parse_socket_inode(opened)
                if number is not None:
                    owners.setdefault(number, name)
        except (TooManyDescriptors, OSError):
            unknown.append(name)
    return SocketOwners(owners, unknown)


def _combine_final_usage(
    group_metrics: CgroupMetrics, before: Reading | None, waited: struct_rusage | None, at: float
) -> Reading | None:
    """Combine the cgroup's counters, the last round and the rusage; None if all are missing."""
    if group_metrics.cpu is None and before is None and waited is None:
        return None
    last = before or Reading(at=at, cpu=0.0, memory=0)
    cpu, read, written = last.cpu, last.disk_read, last.disk_written
    peak = group_metrics.memory_peak or last.memory_peak
    if waited is not None:
        cpu = max(cpu, waited.ru_utime + waited.ru_stime)
        read = max(read or 0, waited.ru_inblock * _BLOCK_SIZE)
        written = max(written or 0, waited.ru_oublock * _BLOCK_SIZE)
    return replace(
        last,
        at=at,
        cpu=cpu if group_metrics.cpu is None else group_metrics.cpu,
        throttled=last.throttled if group_metrics.throttled is None else group_metrics.throttled,
        memory=0,
        memory_peak=peak,
        memory_limit=group_metrics.memory_limit or last.memory_limit,
        disk_read=read,
        disk_written=written,
        disk_wait=last.disk_wait if group_metrics.disk_wait is None else group_metrics.disk_wait,
        processes=0,
        gpus=(),
    )
