"""Measures tasks on the event loop: rounds in a thread, GPUs in parallel, closed sockets in between.

Reading a process may block for ever, such as one that waits for a dead file system. So reads have their own threads,
which may be lost; while one is blocked there are no metrics, and closing does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from resource import struct_rusage
from typing import Any, TypeVar

from holdfast.core.messages import msg
from holdfast.core.metrics.samples import GpuState, Reading
from holdfast.hang_guard import HangGuard, NotResponding

from ..folder_content import StartNote
from .gpu_metrics import GpuMetricsReader
from .sampling_rounds import MeasuredTask, MetricsSampler
from .traffic import ClosedSocketMonitor

T = TypeVar("T")

logger = logging.getLogger(__name__)

_GPU_OWNER_TIMEOUT = 2.0  # seconds, to find the owners of GPU processes
_SOCKET_READ_INTERVAL = 0.1  # seconds between two reads of closed sockets, however many there are


class SingleCallRunner:
    """Runs calls that may block for ever, one at a time."""

    def __init__(self, name: str) -> None:
        self._hang_guard = HangGuard(name)
        self._last_call: asyncio.Future[Any] | None = None

    async def run_call(self, call: Callable[[], T]) -> T:
        """Run it. NotResponding while the previous call is pending."""
        if self._last_call is not None and not self._last_call.done():
            raise NotResponding
        self._last_call = asked = self._hang_guard.start_call(call)
        return await asyncio.shield(asked)


class TaskMetrics:
    def __init__(self) -> None:
        self._rounds = MetricsSampler()
        self._gpus = GpuMetricsReader()
        self._sampling_calls = SingleCallRunner("embedded-metrics")
        self._gpu_calls = SingleCallRunner("embedded-gpu-users")
        self._closed: ClosedSocketMonitor | None = None
        self._is_watching_sockets = False

    async def measure_tasks(self, running: Sequence[MeasuredTask], asked: Collection[str]) -> Mapping[str, Reading]:
        """Measure the tasks in `asked`. `running`: all existing tasks."""
        if not self._is_watching_sockets:
            self._watch_sockets()
        given = {each.attempt_id: each.note.gpus for each in running if each.attempt_id in asked}
        try:
            gpu_metrics, readings = await asyncio.gather(
                self._gpus.read_devices({index for gpus in given.values() for index in gpus}),
                self._sampling_calls.run_call(lambda: self._rounds.measure_tasks(running, given.keys())),
            )
        except NotResponding:
            return {}
        return {
            name: replace(reading, gpus=tuple(gpu_metrics[index] for index in given[name] if index in gpu_metrics))
            for name, reading in readings.items()
        }

    async def read_gpu_states(self, subjects: Sequence[MeasuredTask]) -> tuple[GpuState, ...]:
        """Read all GPUs of this machine. `subjects`: all existing tasks."""
        seen = await self._gpus.read_states()
        pids = frozenset[int]().union(*(each.pids or () for each in seen))
        foreign_processes = await self._classify_processes(subjects, pids) if pids else {}
        return tuple(
            replace(state, foreign_processes=_count_foreign_processes(theirs, foreign_processes))
            for state, theirs in seen
        )

    async def _classify_processes(
        self, subjects: Sequence[MeasuredTask], pids: Collection[int]
    ) -> Mapping[int, bool | None]:
        with suppress(NotResponding, TimeoutError):
            async with asyncio.timeout(_GPU_OWNER_TIMEOUT):
                return await self._gpu_calls.run_call(lambda: self._rounds.classify_processes(subjects, pids))
        return dict.fromkeys(pids)

    def read_final_usage(
        self, attempt_id: str, note: StartNote | None, at: float, waited: struct_rusage | None = None
    ) -> Reading | None:
        """Return the total usage of an ended task. Thread-safe; never fails."""
        try:
            return self._rounds.read_final_usage(attempt_id, note, at, waited)
        except Exception:
            logger.exception(msg("cannot read the final metrics of a task"))
            return None

    def drop_task(self, attempt_id: str) -> None:
        """Drop a task that has ended, whose final usage was read."""
        self._rounds.drop_task(attempt_id)

    # --- closed sockets -------------------------------------------------------------------------------------------

    def _watch_sockets(self) -> None:
        """Listen for closed sockets from the first measurement on."""
        self._is_watching_sockets = True
        self._loop = asyncio.get_running_loop()
        with suppress(OSError):  # without it, traffic of a socket since the last round is not counted
            self._closed = self._rounds.closed_sockets = ClosedSocketMonitor()
            self._start_listening()

    def _start_listening(self) -> None:
        if self._closed is not None:
            self._loop.add_reader(self._closed.fd, self._read_closed_sockets)

    def _read_closed_sockets(self) -> None:
        if self._closed is not None:
            self._closed.read_events()
            self._loop.remove_reader(self._closed.fd)
            self._loop.call_later(_SOCKET_READ_INTERVAL, self._start_listening)

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            self._loop.remove_reader(closed.fd)
        self._rounds.close()


def _count_foreign_processes(pids: frozenset[int] | None, foreign_processes: Mapping[int, bool | None]) -> int | None:
    """Return the number of foreign processes; None if one is unknown."""
    if pids is None or any(foreign_processes[pid] is None for pid in pids):
        return None
    return sum(bool(foreign_processes[pid]) for pid in pids)
