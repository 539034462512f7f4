"""Sessions in ended tasks whose home still exists: in a new container over it, with a command that only waits.

Its files (claim, start note) are in the folder `revived` within the task's, so the task's record stays unchanged. What
the task changed outside its home and its mounts was in the old container, and is not visible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.base import ExecRefused, LaunchSpec
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.lifecycle.revived_tasks import RevivedTasks
from holdfast.engines.embedded.lifecycle.start_refusal import StartRefused
from holdfast.engines.embedded.lifecycle.task_folders import REVIVED_FOLDER, TaskFolders
from holdfast.engines.embedded.lifecycle.task_reviver import IDLE_SCRIPT, limit_resources
from holdfast.engines.embedded.task_folder import is_safe_id
from holdfast.engines.embedded.tree_removal import remove_tree

from .container_folder import ContainerFolder
from .container_observer import ContainerObserver
from .container_starter import ContainerStarter


class RevivedContainers(RevivedTasks):
    def __init__(
        self,
        starter: ContainerStarter,
        observer: ContainerObserver,
        has_session: Callable[[str], bool],
        in_thread: ThreadRunner,
        run_background: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        super().__init__(has_session, in_thread, run_background)
        self._starter = starter
        self._observer = observer
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def _folders(self) -> TaskFolders:
        return self._starter.folders

    async def revive(self, launch: LaunchSpec) -> None:
        """Revive it. ExecRefused if that fails, or the task still runs. Idempotent."""
        async with self._locks.setdefault(launch.attempt_id, asyncio.Lock()):
            folder = await self._run_in_thread(lambda: self._find_folder(launch.attempt_id))
            try:
                await self._revive_locked(launch, folder)
            except StartRefused as refusal:
                raise ExecRefused(refusal.message) from refusal
            except (OSError, EngineError) as error:
                text = msg("Cannot open a shell to access the task's files: {error}.", error=error)
                raise ExecRefused(text) from error
        self.schedule_session_check(launch.attempt_id)

    def _find_folder(self, attempt_id: str) -> ContainerFolder:
        folder = self._folders.get_folder(attempt_id)
        assert isinstance(folder, ContainerFolder)
        known = is_safe_id(attempt_id) and attempt_id in self._folders.list_attempt_ids()
        if not known or folder.read_start_note() is None:
            raise ExecRefused(msg("The task's files were deleted."))
        if folder.is_alive():
            raise ExecRefused(msg("The task is still stopping. Try again in a few seconds."))
        return folder

    async def _revive_locked(self, launch: LaunchSpec, folder: ContainerFolder) -> None:
        revived = _get_revived_folder(folder)
        if await self._run_in_thread(revived.is_alive):
            return
        await self._remove_container(launch.attempt_id)
        await self._run_in_thread(lambda: _recreate_folder(revived))
        idle = replace(launch, entry=IDLE_SCRIPT, hold=False, gpus=(), ports={}, resources=limit_resources(launch))
        name = self._make_name(launch.attempt_id)
        await self._starter.run_container(name, idle, revived, folder)
        container = await self._starter.daemon.inspect(name)
        note = revived.read_start_note()
        if container is None or note is None or not self._observer.record_start(revived, note, container):
            raise ExecRefused(msg("The container for the task's files has ended."))

    async def end(self, attempt_id: str) -> None:
        """End it, whichever server started it. Idempotent."""
        if not is_safe_id(attempt_id) or not self._folders.get_folder(attempt_id).has_file(REVIVED_FOLDER):
            return
        async with self._locks.setdefault(attempt_id, asyncio.Lock()):
            await self._remove_container(attempt_id)

    async def _end_task_in_thread(self, attempt_id: str) -> None:
        await self.end(attempt_id)

    async def _remove_container(self, attempt_id: str) -> None:
        await self._starter.daemon.remove(self._make_name(attempt_id), force=True)

    def _make_name(self, attempt_id: str) -> str:
        return f"{self._starter.names.make_name(attempt_id)}-{REVIVED_FOLDER}"

    def find_revived_attempts(self) -> list[str]:
        """Return the revived attempts, by us or by an earlier server."""
        folders = self._folders
        return [name for name in folders.list_attempt_ids() if folders.get_folder(name).has_file(REVIVED_FOLDER)]


def _get_revived_folder(folder: ContainerFolder) -> ContainerFolder:
    return replace(folder, path=folder[REVIVED_FOLDER])


def _recreate_folder(folder: ContainerFolder) -> None:
    remove_tree(folder.path)
    folder.create()
