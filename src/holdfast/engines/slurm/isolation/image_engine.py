"""The images of the Slurm engine: one store in the folder that all nodes share, unpacked once for all of them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.engines.base import ImageSummary, PullProgress, RegistryCredentials
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.lifecycle.task_cleaner import TrashCleaner
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders, delete_trash

from ..options import SlurmOptions
from .node_isolation import IsolationMode

if TYPE_CHECKING:
    from holdfast.engines.embedded.images.pulling import ImagePuller

_CLEANUP_DELAY = 60.0  # seconds a replaced image stays for tasks that are just starting on it


class ImageEngine:
    """Base of the engine: imports, pulls and removes images."""

    def __init__(self, folder: Path, options: SlurmOptions) -> None:
        self._options = options
        self._images = ImageStore(folder / "images", options.marks)
        self._puller: ImagePuller | None = None
        self._image_cleaner: TrashCleaner | None = None
        self._image_folders: TaskFolders | None = None

    def _set_up_images(self, cleaner: TrashCleaner, folders: TaskFolders) -> None:
        """Read the images, and clean up after a server that died. Blocking."""
        self._image_cleaner, self._image_folders = cleaner, folders
        self._images.list_names()  # reads them, so that later calls do not block
        cleaner.submit(delete_trash, tuple(self._images.list_unfinished_folders()))
        cleaner.submit(self._remove_unused_images)

    async def _close_images(self) -> None:
        if self._puller is not None:
            await self._puller.close()
            self._puller = None

    def _remove_unused_images(self) -> None:
        """Remove what neither an image nor a task uses. The start note of a task names its image."""
        if self._image_folders is not None:
            self._images.remove_unused_folders(self._image_folders.find_folders_in_use())

    def _schedule_image_cleanup(self) -> None:
        if self._image_cleaner is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(_CLEANUP_DELAY, self._image_cleaner.submit, self._remove_unused_images)

    async def list_images(self) -> Sequence[ImageSummary]:
        found = await asyncio.to_thread(self._images.list_image_summaries)
        host = ImageSummary(name=HOST_IMAGE, size=None, created_at=None, source=msg("the files of the nodes"))
        return [host, *(image for image in found if image.name != HOST_IMAGE)]

    async def import_image(self, name: str, file: Path) -> ImageSummary:
        """Import a docker-save tar, an OCI layout or a rootfs tar. UserError if it is none of them, or has no shell."""
        info = await asyncio.to_thread(lambda: self._images.add(name, file, needs_shell=True))
        self._schedule_image_cleanup()
        return info

    def has_image(self, name: str) -> bool:
        if self._options.isolation == IsolationMode.NONE:
            return True  # it would be pulled in vain: its task is refused
        image = self._images.find_image(name)
        return image is not None and not image.private

    async def pull_image(
        self,
        name: str,
        credentials: RegistryCredentials | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageSummary:
        found = await (await self._get_puller()).pull_image(name, credentials, on_progress)
        self._schedule_image_cleanup()
        return found

    def is_private_image(self, name: str) -> bool:
        image = self._images.find_image(name)
        return image is not None and image.private

    async def check_image_access(self, name: str, credentials: RegistryCredentials | None = None) -> None:
        await (await self._get_puller()).check_access(name, credentials)

    async def remove_image(self, name: str) -> bool:
        """Return False if there was none. Running tasks keep it."""
        removed = await asyncio.to_thread(lambda: self._images.remove(name))
        self._schedule_image_cleanup()
        return removed

    async def _get_puller(self) -> ImagePuller:
        """Most servers pull rarely: the HTTP client is only loaded for the first pull."""
        if self._puller is None:
            pulling: Any = await asyncio.to_thread(importlib.import_module, "holdfast.engines.embedded.images.pulling")
            self._puller = self._puller or pulling.ImagePuller(self._images, self._options.registries)
        assert self._puller is not None
        return self._puller
