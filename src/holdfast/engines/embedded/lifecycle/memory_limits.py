"""Memory limits where the kernel enforces none: measured from outside, enforced by stopping the task."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.messages import msg

from . import killing
from .disk_limits import SupportsTaskLimits, ThreadRunner
from .live_tasks import LiveTask

logger = logging.getLogger(__name__)

_MEMORY_INTERVAL = 1.0  # seconds


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    host: SupportsTaskLimits
    in_thread: ThreadRunner

    async def run(self) -> None:
        """Check every second the tasks whose memory the kernel does not limit."""
        while True:
            await asyncio.sleep(_MEMORY_INTERVAL)
            for task in self.host.list_live_tasks():
                if task.note is not None and task.note.memory:
                    try:
                        await self._enforce_limit(task, task.note.memory)
                    except OSError as error:  # of this task only; the others are still checked
                        details = {"event": "memory", "attempt": task.attempt_id, "error": str(error)}
                        logger.warning(msg("cannot check the memory usage of a task"), extra=details)

    async def _enforce_limit(self, task: LiveTask, limit: int) -> None:
        target = self.host.build_kill_target(task)
        if await self.in_thread(lambda: killing.measure_memory(target, limit)) <= limit:
            return
        with suppress(OSError):  # stop it even if the disk is full; then its exit has less detail
            task.folder.mark_out_of_memory()
        await self.host.stop(task.attempt_id, 0)
