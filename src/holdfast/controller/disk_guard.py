"""Files of held tasks are let go when the disk is nearly full: the oldest first, one at a time."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.holds import Ask, HoldRequest
from holdfast.core.job import Keep
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import show_bytes
from holdfast.hang_guard import HangGuard
from holdfast.services.control import Control

log = logging.getLogger(__name__)

INTERVAL = 30.0  # seconds; what was let go is off the disk by then
TIMEOUT = 10.0  # seconds for a disk to answer

HeldTasks = Sequence[tuple[JobSnapshot, TaskAttempt]]


@dataclass(frozen=True, slots=True)
class Room:
    """On the disk of the state folder, in bytes."""

    free: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MinFree:
    """The admin's."""

    bytes: int = 0
    percent: float = 0.0

    def wanted(self, total: int) -> int:
        return max(self.bytes, int(total * self.percent / 100))


def files_only(held: HeldTasks) -> list[tuple[JobSnapshot, TaskAttempt]]:
    """Those that take nothing but room on the disk, the oldest first."""
    found = [
        (task.held.since, snapshot.id, task.task, (snapshot, task))
        for snapshot, task in held
        if task.held and task.held.keep is Keep.FILES and task.stop is None
    ]
    return [pair for *_, pair in sorted(found, key=lambda each: each[:3])]


def decide(held: HeldTasks, room: Room, least: MinFree, now: datetime) -> tuple[str, HoldRequest] | None:
    """Which job has to let go of what; None: there is room, or nothing that could make some."""
    wanted, oldest = least.wanted(room.total), files_only(held)[:1]
    if room.free >= wanted or not oldest:
        return None
    ((snapshot, task),) = oldest
    why = msg(
        "The files of {task} were let go to make room on the disk: {free} were free, {wanted} are wanted",
        task=task.task,
        free=show_bytes(room.free),
        wanted=show_bytes(wanted),
    )
    return snapshot.id, HoldRequest(actor="holdfast", at=now, ask=Ask.RELEASE, task=task.task, why=why)


class DiskGuard:
    def __init__(
        self,
        control: Control,
        folder: Path,
        least: MinFree,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        look: Callable[[Path], Room] | None = None,
    ) -> None:
        self._control = control
        self._folder = folder
        self._least = least
        self._clock = clock
        self._look = look or _look
        self._reach = HangGuard("disk-guard")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.guard()
            except Exception:
                log.exception("could not see how full the disk is", extra={"event": "disk-guard"})
            await asyncio.sleep(INTERVAL)

    async def guard(self) -> str | None:
        """The id of the job that had to let go of something, if one had. The disk is looked at only where that could
        help."""
        if not files_only(self._control.held()):
            return None
        room = await self._reach.run(lambda: self._look(self._folder), TIMEOUT)
        found = decide(self._control.held(), room, self._least, self._clock())
        if found is None:
            return None
        job_id, request = found
        log.warning(
            "let go of a held task to make room on the disk",
            extra={"event": "disk-guard", "job": job_id, "task": request.task, "free": room.free},
        )
        await self._control.ask_hold(job_id, request)
        return job_id


def _look(folder: Path) -> Room:
    usage = shutil.disk_usage(folder)
    return Room(free=usage.free, total=usage.total)
