"""Run the tasks of a simulation on the embedded engine: the server's sandbox with its own state folder."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.core.attempt import Observation
from holdfast.core.image_names import list_name_variants
from holdfast.core.job import HOST_IMAGE
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import ExecRefused, Isolation, LaunchSpec, LogStream, PullError
from holdfast.engines.embedded import cgroups
from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.services.name_suggestions import suggest_name
from holdfast.settings import Settings
from holdfast.start_options import build_engine_options

_CHUNK_SIZE = 1 << 20  # bytes of output read at once
_POLL_TIMEOUT = 3600.0  # seconds; the end of a task is reported immediately


class SandboxBackend:
    name = "sandbox"

    def __init__(self, home: Path, state: Path, settings: Settings) -> None:
        """`state`: the state folder of this user's server; only its images are used."""
        self._home = home
        self._state = state
        self._cgroup_name = f"holdfast-simulation-{home.name}"
        options = build_engine_options(home, settings)
        self._unknown_image_policy = settings.images.unknown
        self._engine = EmbeddedEngine(
            home, replace(options, cgroup=self._cgroup_name, hidden=(*options.hidden, str(state)), scratch_interval=1.0)
        )

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        await asyncio.to_thread(_copy_image_indexes, self._state / "images", self._home / "images")
        await self._engine.open(on_change)
        self.isolated = self._engine.get_health().isolation is not Isolation.NONE

    async def close(self) -> None:
        await self._remove_tasks()
        await self._engine.close()
        await asyncio.to_thread(_remove_cgroups, self._cgroup_name)

    async def _remove_tasks(self) -> None:
        names = await self._engine.list_attempts()
        for name in names:
            await self._engine.stop(name, 0)
        for name in names:
            await self._engine.wait_until_gone(name)
            with suppress(OSError):
                await self._engine.remove(name)

    def get_node(self) -> Node:
        return self._engine.list_nodes()[0]

    def list_notes(self) -> Sequence[str]:
        return self._engine.get_health().notes

    async def find_image_problem(self, image: str) -> tuple[str, str] | None:
        """Pull the image as a server would; it is removed with the simulation."""
        names = [each.name for each in await self._engine.list_images()]
        known = list_name_variants(image) & {name for each in names for name in list_name_variants(each)}
        if image == HOST_IMAGE or known or self._unknown_image_policy == "host":
            return None
        if self._unknown_image_policy == "pull" and self.isolated:
            try:
                await self._engine.pull_image(image)
                return None
            except PullError as error:
                return error.message.removesuffix("."), error.hint or ""
        near = suggest_name(image, [name for name in names if name != HOST_IMAGE])
        how = f"Import it: `docker save {image} -o image.tar`, then `holdfast image import {image} image.tar`."
        other = "Or use the image of Docker or Podman: --with docker."
        return f"The image {image} is not imported", " ".join(filter(None, (near, how, other)))

    async def start(self, launch: LaunchSpec) -> Observation:
        return await self._engine.start(launch)

    async def stop(self, attempt_id: str, grace: float) -> None:
        await self._engine.stop(attempt_id, grace)

    async def read_output(self, attempt_id: str) -> AsyncIterator[bytes]:
        log = self._engine.open_log(attempt_id, LogStream.MERGED)
        at = 0
        while log is not None:
            data = await log.read(at, _CHUNK_SIZE)
            at += len(data)
            if data:
                yield data
            elif not await log.wait_for_growth(at, _POLL_TIMEOUT) and await log.is_complete():
                return

    async def list_pids(self, attempt_id: str) -> Sequence[int]:
        try:
            return [process.pid for process in await self._engine.list_processes(attempt_id)]
        except ExecRefused:
            return ()


def _copy_image_indexes(theirs: Path, ours: Path) -> None:
    """Copy the index file of each image; the image's own files are used where they are."""
    ours.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        for index in theirs.glob("*.json"):
            with suppress(OSError):
                shutil.copyfile(index, ours / index.name)


def _remove_cgroups(name: str) -> None:
    groups, _ = cgroups.find_cgroups(name=name)
    for _, parent in groups.parents if groups else ():
        with os.scandir(parent) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        cgroups.remove_cgroup((*inner, parent))
