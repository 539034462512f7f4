"""Stopping a running task: SIGTERM first, SIGKILL after its grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from . import killing
from .disk_limits import SupportsTaskLimits, ThreadRunner
from .live_tasks import LiveTask

_RETRY_INTERVAL = 0.02  # seconds between two attempts on a task that is still starting
_MIN_CONTINUE_INTERVAL, _MAX_CONTINUE_INTERVAL = 0.2, 10.0  # seconds between two signals that continue it
_KILL_INTERVAL = 1.0  # seconds between two attempts to kill it


@dataclass(frozen=True, slots=True)
class TaskStopper:
    host: SupportsTaskLimits
    run_in_thread: ThreadRunner
    run_background: Callable[[Coroutine[Any, Any, object]], None]

    def stop_task(self, task: LiveTask, grace: float) -> None:
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + max(0.0, grace)
        first = task.kill_at is None
        if task.kill_at is not None and task.kill_at <= kill_at:
            return
        task.kill_at = kill_at
        if task.kill_timer is not None:
            task.kill_timer.cancel()
        task.kill_timer = loop.call_at(kill_at, self._kill_when_due, task, False)
        if first and grace > 0:
            self.run_background(self._terminate_task(task))

    async def _terminate_task(self, task: LiveTask) -> None:
        """Send SIGTERM, and retry while the task is still starting and has no process yet."""
        loop = asyncio.get_running_loop()
        while self.host.is_live(task) and task.kill_at is not None and loop.time() < task.kill_at:
            if await self._send_term(task):
                await self._continue_task(task)
                return
            await asyncio.sleep(_RETRY_INTERVAL)

    async def _continue_task(self, task: LiveTask) -> None:
        """Send SIGCONT from time to time: a process may stop itself just after the first one, as those of a held task
        do."""
        loop = asyncio.get_running_loop()
        interval = _MIN_CONTINUE_INTERVAL
        while True:
            await asyncio.sleep(interval)
            if not self.host.is_live(task) or task.kill_at is None or loop.time() >= task.kill_at:
                return
            await self._send_continue(task)
            interval = min(2 * interval, _MAX_CONTINUE_INTERVAL)

    async def _send_continue(self, task: LiveTask) -> None:
        await self.run_in_thread(lambda: killing.continue_task(self.host.build_kill_target(task)))

    async def _send_term(self, task: LiveTask) -> bool:
        return await self.run_in_thread(lambda: killing.terminate_task(self.host.build_kill_target(task)))

    async def _kill_task(self, task: LiveTask, again: bool) -> None:
        await self.run_in_thread(lambda: killing.kill_task(self.host.build_kill_target(task), again=again))

    def _kill_when_due(self, task: LiveTask, again: bool) -> None:
        if self.host.is_live(task):
            loop = asyncio.get_running_loop()
            task.kill_timer = loop.call_later(_KILL_INTERVAL, self._kill_when_due, task, True)
            self.run_background(self._kill_task(task, again))
