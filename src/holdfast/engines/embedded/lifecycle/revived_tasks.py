"""Revived tasks: each is ended some time after its last session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.engines.base import LaunchSpec

from ..sandbox.site import SandboxSite
from .disk_limits import ThreadRunner
from .task_reviver import TaskReviver

_SESSION_CHECK_INTERVAL = 60.0  # seconds between two checks for sessions in a revived task


class RevivedTasks:
    def __init__(
        self,
        has_session: Callable[[str], bool],
        in_thread: ThreadRunner,
        run_background: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        self._has_session = has_session
        self._run_in_thread = in_thread
        self._run_background = run_background
        self.reviver: TaskReviver | None = None  # set once the engine is open
        self._timers: dict[str, asyncio.TimerHandle] = {}  # attempt id -> when to check for sessions again

    def schedule_session_check(self, attempt_id: str) -> None:
        """Keep it until it has no session any more: its usage counts for no quota."""
        timer = self._timers.pop(attempt_id, None)
        if timer is not None:
            timer.cancel()
        self._timers[attempt_id] = asyncio.get_running_loop().call_later(
            _SESSION_CHECK_INTERVAL, self._end_task_if_unused, attempt_id
        )

    def _end_task_if_unused(self, attempt_id: str) -> None:
        if self._has_session(attempt_id):
            self.schedule_session_check(attempt_id)
        else:
            self._timers.pop(attempt_id, None)
            self._run_background(self._end_task_in_thread(attempt_id))

    async def _end_task_in_thread(self, attempt_id: str) -> None:
        await self._run_in_thread(lambda: self.end_task(attempt_id))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def set_site(self, site: SandboxSite) -> None:
        assert self.reviver is not None
        self.reviver.site = site

    # --- blocking, in a thread ----------------------------------------------------------------------------------------

    def revive_task(self, launch: LaunchSpec) -> None:
        assert self.reviver is not None
        self.reviver.revive_task(launch)

    def end_task(self, attempt_id: str) -> None:
        if self.reviver is not None:
            self.reviver.end_task(attempt_id)

    def list_revived_tasks(self) -> list[str]:
        return self.reviver.list_revived_tasks() if self.reviver is not None else []
