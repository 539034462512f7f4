"""Stopping a task in a container: by signals to its processes, or through the daemon where that is not permitted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.errors import EngineError
from holdfast.engines.embedded.lifecycle.live_tasks import LiveTask
from holdfast.engines.embedded.lifecycle.task_stopper import TaskStopper
from holdfast.engines.embedded.task_folder import TaskFolder

from .container_observer import UNKNOWN_NAMESPACE
from .daemon import Daemon
from .names import ContainerNames


@dataclass(frozen=True, kw_only=True)
class ContainerStopper(TaskStopper):
    daemon: Daemon
    names: ContainerNames

    async def _send_term(self, task: LiveTask) -> bool:
        if await self.run_in_thread(lambda: can_inspect(task.folder)):
            return await super()._send_term(task)
        with suppress(EngineError):
            return await self.daemon.terminate(self.names.make_name(task.attempt_id))
        return False

    async def _send_continue(self, task: LiveTask) -> None:
        if await self.run_in_thread(lambda: can_inspect(task.folder)):
            await super()._send_continue(task)
        else:
            with suppress(EngineError):
                await self.daemon.continue_processes(self.names.make_name(task.attempt_id))

    async def _kill_task(self, task: LiveTask, again: bool) -> None:
        can_signal = await self.run_in_thread(lambda: can_inspect(task.folder))
        if can_signal:
            await super()._kill_task(task, again)
        else:
            await self.run_in_thread(lambda: _mark_killed(task.folder))
        if again or not can_signal:  # signals cannot end it in a paused container
            with suppress(EngineError):
                await self.daemon.kill(self.names.make_name(task.attempt_id))

    async def terminate_unwatched(self, attempt_id: str) -> None:
        with suppress(EngineError):
            await self.daemon.terminate(self.names.make_name(attempt_id))

    async def kill_unwatched(self, attempt_id: str, folder: TaskFolder) -> None:
        await self.run_in_thread(lambda: _mark_killed(folder))
        with suppress(EngineError):
            await self.daemon.kill(self.names.make_name(attempt_id))


def can_inspect(folder: TaskFolder) -> bool:
    """Return whether this user can inspect and signal the task's processes: they belong to root, or to the user of a
    rootless daemon."""
    return folder.read_claim().pid_namespace != UNKNOWN_NAMESPACE


def _mark_killed(folder: TaskFolder) -> None:
    with suppress(OSError):  # a full disk is no reason to let it run
        folder.mark_killed()
