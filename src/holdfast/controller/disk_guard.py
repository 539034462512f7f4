"""Releases files of held tasks when the disk is nearly full: the oldest first, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.holds import HoldAction, HoldRequest
from holdfast.core.job import HoldScope
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import format_bytes
from holdfast.disk_space import DiskSpace, read_disk_space
from holdfast.hang_guard import HangGuard
from holdfast.services.control import Control

log = logging.getLogger(__name__)

CHECK_INTERVAL = 30.0  # seconds; released files are deleted by then
DISK_TIMEOUT = 10.0  # seconds for a disk to respond

HeldTasks = Sequence[tuple[JobSnapshot, TaskAttempt]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinFreeSpace:
    """Free space that the admin requires."""

    bytes: int = 0
    percent: float = 0.0

    def compute_required_space(self, total: int) -> int:
        return max(self.bytes, int(total * self.percent / 100))


def list_files_only_holds(held: HeldTasks) -> list[tuple[JobSnapshot, TaskAttempt]]:
    """Return the tasks that hold only files, oldest first."""
    found = [
        (task.held.since, snapshot.id, task.task, (snapshot, task))
        for snapshot, task in held
        if task.held and task.held.keep is HoldScope.FILES and task.stop is None
    ]
    return [pair for *_, pair in sorted(found, key=lambda each: each[:3])]


def choose_hold_to_release(
    held: HeldTasks, room: DiskSpace, least: MinFreeSpace, now: datetime
) -> tuple[str, HoldRequest] | None:
    """Choose which hold to release; None: enough is free, or nothing can be released."""
    wanted, oldest = least.compute_required_space(room.total), list_files_only_holds(held)[:1]
    if room.free >= wanted or not oldest:
        return None
    ((snapshot, task),) = oldest
    why = msg(
        "The files of {task} were deleted to free disk space: {free} free, {wanted} required",
        task=task.task,
        free=format_bytes(room.free),
        wanted=format_bytes(wanted),
    )
    return snapshot.id, HoldRequest(actor="holdfast", at=now, action=HoldAction.RELEASE, task=task.task, why=why)


class DiskGuard:
    def __init__(
        self,
        control: Control,
        folder: Path,
        least: MinFreeSpace,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        look: Callable[[Path], DiskSpace] | None = None,
    ) -> None:
        self._control = control
        self._folder = folder
        self._min_free = least
        self._clock = clock
        self._read_space = look or read_disk_space
        self._hang_guard = HangGuard("disk-guard")

    async def run(self) -> None:
        while True:
            try:
                await self.release_hold_if_full()
            except Exception:
                log.exception("could not read the disk usage", extra={"event": "disk-guard"})
            await asyncio.sleep(CHECK_INTERVAL)

    async def release_hold_if_full(self) -> str | None:
        """Release one hold if the disk is full; return the job id. The disk is read only if a release is possible."""
        if not list_files_only_holds(self._control.list_held_tasks()):
            return None
        room = await self._hang_guard.run_with_timeout(lambda: self._read_space(self._folder), DISK_TIMEOUT)
        found = choose_hold_to_release(self._control.list_held_tasks(), room, self._min_free, self._clock())
        if found is None:
            return None
        job_id, request = found
        log.warning(
            "released a held task to free disk space",
            extra={"event": "disk-guard", "job": job_id, "task": request.task, "free": room.free},
        )
        await self._control.request_hold_change(job_id, request)
        return job_id
