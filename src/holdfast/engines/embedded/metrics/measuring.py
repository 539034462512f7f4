"""Measuring tasks, seen from the event loop: rounds in a thread, the GPUs beside them, closed sockets in between.

A look at a process may never come back, such as at one that waits for a file system that is gone. So looks have threads
of their own, which may be lost; while one is not back nothing is told, and nobody waits for it at the end.
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
from .gpu_metrics import GpuMetrics
from .rounds import Rounds, Subject
from .traffic import Closed

T = TypeVar("T")

logger = logging.getLogger(__name__)

_TIMEOUT = 2.0  # seconds, for whose the processes on GPUs are
_INTERVAL = 0.1  # seconds between two looks at which sockets were closed, however fast they come and go


class Alone:
    """Calls that may never come back, one at a time."""

    def __init__(self, name: str) -> None:
        self._reach = HangGuard(name)
        self._last: asyncio.Future[Any] | None = None

    async def ask(self, call: Callable[[], T]) -> T:
        """NotResponding while the last one is not back."""
        if self._last is not None and not self._last.done():
            raise NotResponding
        self._last = asked = self._reach.begin(call)
        return await asyncio.shield(asked)


class Measuring:
    def __init__(self) -> None:
        self._rounds = Rounds()
        self._gpus = GpuMetrics()
        self._looks = Alone("embedded-figures")
        self._gpu_looks = Alone("embedded-gpu-users")
        self._closed: Closed | None = None
        self._began = False

    async def measure(self, running: Sequence[Subject], asked: Collection[str]) -> Mapping[str, Reading]:
        """Of those that are asked for. `running`: all tasks that there are."""
        if not self._began:
            self._begin()
        given = {each.attempt_id: each.note.gpus for each in running if each.attempt_id in asked}
        try:
            figures, readings = await asyncio.gather(
                self._gpus.read({index for gpus in given.values() for index in gpus}),
                self._looks.ask(lambda: self._rounds.round(running, given.keys())),
            )
        except NotResponding:
            return {}
        return {
            name: replace(reading, gpus=tuple(figures[index] for index in given[name] if index in figures))
            for name, reading in readings.items()
        }

    async def look_at_gpus(self, subjects: Sequence[Subject]) -> tuple[GpuState, ...]:
        """All of this machine. `subjects`: all tasks that there are."""
        seen = await self._gpus.read_all()
        pids = frozenset[int]().union(*(each.pids or () for each in seen))
        foreign_processes = await self._find_foreign(subjects, pids) if pids else {}
        return tuple(replace(state, foreign_processes=_count(theirs, foreign_processes)) for state, theirs in seen)

    async def _find_foreign(self, subjects: Sequence[Subject], pids: Collection[int]) -> Mapping[int, bool | None]:
        with suppress(NotResponding, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                return await self._gpu_looks.ask(lambda: self._rounds.foreign_processes(subjects, pids))
        return dict.fromkeys(pids)

    def used(
        self, attempt_id: str, note: StartNote | None, at: float, waited: struct_rusage | None = None
    ) -> Reading | None:
        """What an ended task used in all. From any thread; an end is told whether or not its figures are to be had."""
        try:
            return self._rounds.last(attempt_id, note, at, waited)
        except Exception:
            logger.exception(msg("could not read the last figures of a task"))
            return None

    def forget(self, attempt_id: str) -> None:
        """It is not there any more, and its last figures will not be asked for."""
        self._rounds.forget(attempt_id)

    # --- closed sockets -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Not before anybody asks for figures: where nobody does, sockets need not be listened to."""
        self._began = True
        self._loop = asyncio.get_running_loop()
        with suppress(OSError):  # without it, what went through a socket since the last round is not counted
            self._closed = self._rounds.closed = Closed()
            self._listen()

    def _listen(self) -> None:
        if self._closed is not None:
            self._loop.add_reader(self._closed.fd, self._hear)

    def _hear(self) -> None:
        if self._closed is not None:
            self._closed.hear()
            self._loop.remove_reader(self._closed.fd)
            self._loop.call_later(_INTERVAL, self._listen)

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            self._loop.remove_reader(closed.fd)
        self._rounds.close()


def _count(pids: frozenset[int] | None, foreign_processes: Mapping[int, bool | None]) -> int | None:
    """How many of these are foreign; None where that of one is not known."""
    if pids is None or any(foreign_processes[pid] is None for pid in pids):
        return None
    return sum(bool(foreign_processes[pid]) for pid in pids)
