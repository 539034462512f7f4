"""Measuring tasks, seen from the event loop: rounds in a thread, the GPUs beside them, closed sockets in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from resource import struct_rusage
from typing import Protocol, TypeVar

from holdfast.core.metrics import GpuState, Reading

from .cgroups import Cgroups
from .gpu_figures import GpuFigures
from .packets import open_counter
from .read import StartNote
from .rounds import Rounds, Subject
from .traffic import Closed

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PAUSE = 0.1  # seconds between two looks at which sockets were closed, however fast they come and go


class InThread(Protocol):
    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class Measuring:
    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread
        self._rounds = Rounds()
        self._gpus = GpuFigures()
        self._turn = asyncio.Lock()
        self._began = False

    def open(self, groups: Cgroups | None) -> None:
        """Have packets counted from now on, where that can be had. Blocking: call it from a thread."""
        for controller, parent in groups.parents if groups is not None else ():
            if not controller:
                self._rounds.packets = open_counter(parent)

    async def measure(self, subjects: Sequence[Subject]) -> Mapping[str, Reading]:
        async with self._turn:
            if not self._began:
                self._begin()
            devices = {index for each in subjects for index in each.note.gpus}
            figures, readings = await asyncio.gather(
                self._gpus.read(devices), self._in_thread(lambda: self._rounds.round(subjects))
            )
        given = {each.attempt_id: each.note.gpus for each in subjects}
        return {
            name: replace(reading, gpus=tuple(figures[index] for index in given[name] if index in figures))
            for name, reading in readings.items()
        }

    async def look_at_gpus(self, subjects: Sequence[Subject]) -> tuple[GpuState, ...]:
        """All of this machine. `subjects`: all tasks that there are."""
        seen = await self._gpus.read_all()
        pids = frozenset[int]().union(*(each.pids or () for each in seen))
        strangers = await self._in_thread(lambda: self._rounds.strangers(subjects, pids)) if pids else {}
        return tuple(replace(state, strangers=_count(theirs, strangers)) for state, theirs in seen)

    def used(
        self, attempt_id: str, note: StartNote | None, at: float, waited: struct_rusage | None = None
    ) -> Reading | None:
        """What an ended task used in all. From any thread; an end is told whether or not its figures are to be had."""
        try:
            return self._rounds.last(attempt_id, note, at, waited)
        except Exception:
            logger.exception("could not read the last figures of a task")
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
            if self._rounds.packets is None:
                self._rounds.closed = Closed()
                self._listen()

    def _listen(self) -> None:
        if self._rounds.closed is not None:
            self._loop.add_reader(self._rounds.closed.fd, self._hear)

    def _hear(self) -> None:
        if self._rounds.closed is not None:
            self._rounds.closed.hear()
            self._loop.remove_reader(self._rounds.closed.fd)
            self._loop.call_later(_PAUSE, self._listen)

    def close(self) -> None:
        """Once no round is under way."""
        packets, self._rounds.packets = self._rounds.packets, None
        closed, self._rounds.closed = self._rounds.closed, None
        if packets is not None:
            packets.close()
        if closed is not None:
            self._loop.remove_reader(closed.fd)
            closed.close()


def _count(pids: frozenset[int] | None, strangers: Mapping[int, bool | None]) -> int | None:
    """How many of these are strangers; None where that of one is not known."""
    if pids is None or any(strangers[pid] is None for pid in pids):
        return None
    return sum(bool(strangers[pid]) for pid in pids)
