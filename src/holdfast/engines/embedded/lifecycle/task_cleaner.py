"""Deleting ended tasks, unused images and unused layers, in one thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from ..cgroups import Cgroups
from ..images.image_store import ImageStore
from ..sandbox.sandbox_layers import SandboxLayers
from . import killing
from .disk_limits import cap_logs
from .task_folders import TaskFolders, delete_trash

_SHARED_CLEANUP_DELAY = 60.0  # seconds a replaced image stays for tasks that are just starting on it


class TrashCleaner:
    """Archives ended tasks, and deletes what is left of them."""

    def __init__(self, folders: TaskFolders, log_cap: int, name: str) -> None:
        self._folders = folders
        self._log_cap = log_cap
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-cleaner")

    def submit(self, call: Callable[..., None], *args: Any) -> None:
        """Run it soon. What is not cleaned before closing is cleaned at the next start."""
        with suppress(RuntimeError):  # already closed
            self._executor.submit(call, *args)

    def archive_folder(self, attempt_id: str, groups: tuple[str, ...] = ()) -> None:
        """Keep its logs, delete the rest and its cgroups. Blocking."""
        folder = self._folders.get_folder(attempt_id)
        if folder.exists() and not folder.is_alive():
            cap_logs(folder, self._log_cap)
        trash = self._folders.archive_task(attempt_id)
        if trash is not None:
            self.submit(delete_trash, trash, groups)

    def close(self) -> None:
        """Blocking."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class TaskCleaner(TrashCleaner):
    def __init__(self, places: TaskFolders, images: ImageStore, views: SandboxLayers, log_cap: int) -> None:
        super().__init__(places, log_cap, "embedded")
        self._images = images
        self._layers = views
        self._loop = asyncio.get_running_loop()

    def clean_shared_folders(self) -> None:
        """Remove layers and images that no task uses any more."""
        in_use = self._folders.find_folders_in_use()
        self._images.remove_unused_folders(in_use)
        self._layers.delete_unused_layers(in_use)

    def schedule_shared_cleanup(self) -> None:
        self._loop.call_later(_SHARED_CLEANUP_DELAY, self.submit, self.clean_shared_folders)

    def archive_task(self, attempt_id: str, groups: Cgroups | None) -> None:
        """Keep its logs, delete the rest. Blocking."""
        name = self._folders.get_machine_wide_name(attempt_id)
        folder = self._folders.get_folder(attempt_id)
        note = folder.read_start_note()
        if note is not None and not note.sandbox and folder.read_claim().code is None and not folder.is_alive():
            killing.kill_unsandboxed_processes(
                killing.KillTarget(name, folder, note, 0)
            )  # its runner was killed; processes may remain
        made = note.cgroups if note else groups.list_folders(name) if groups else ()
        self.archive_folder(attempt_id, made)

    def close(self) -> None:
        """Blocking."""
        super().close()
        self._layers.delete_outside_layers(
            self._folders.find_folders_in_use()
        )  # last: cleaning creates the folder that this removes
