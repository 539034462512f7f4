"""Tasks on the embedded engine: the same sandbox as a server's, on a state folder of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.bootstrap import engine_options
from holdfast.core.attempt import Observation
from holdfast.core.job import HOST_IMAGE
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import ExecRefused, Isolation, Launch, Stream
from holdfast.engines.embedded import cgroups
from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.services.name_suggestions import nearest
from holdfast.settings import Settings

_MAX_COUNT = 1 << 20  # bytes of output read at once
_LOOK = 3600.0  # seconds; the end of a task is told at once


class SandboxStage:
    name = "sandbox"

    def __init__(self, home: Path, state: Path, settings: Settings) -> None:
        """`state`: the state folder of this user's server, whose images are used and nothing else."""
        self._home = home
        self._state = state
        self._group = f"holdfast-simulation-{home.name}"
        options = engine_options(home, settings)
        self._unknown = settings.images.unknown
        self._engine = EmbeddedEngine(
            home, replace(options, cgroup=self._group, hidden=(*options.hidden, str(state)), scratch_every=1.0)
        )

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        await asyncio.to_thread(_show_images, self._state / "images", self._home / "images")
        await self._engine.open(on_change)
        self.isolated = self._engine.health().isolation is not Isolation.NONE

    async def close(self) -> None:
        await self._remove_tasks()
        await self._engine.close()
        await asyncio.to_thread(_remove_groups, self._group)

    async def _remove_tasks(self) -> None:
        names = await self._engine.list_attempts()
        for name in names:
            await self._engine.stop(name, 0)
        for name in names:
            await self._engine.wait_until_gone(name)
            with suppress(OSError):
                await self._engine.remove(name)

    def node(self) -> Node:
        return self._engine.nodes()[0]

    def notes(self) -> Sequence[str]:
        return self._engine.health().notes

    async def missing_image(self, image: str) -> tuple[str, str] | None:
        names = [each.name for each in await self._engine.images()]
        known = {name.removesuffix(":latest") for name in names}
        if image == HOST_IMAGE or image.removesuffix(":latest") in known or self._unknown == "host":
            return None
        near = nearest(image, [name for name in names if name != HOST_IMAGE])
        how = f"Import it: docker save {image} -o image.tar, then holdfast image import {image} image.tar."
        other = "Or simulate with the one that Docker or Podman has: --with docker."
        return f"The image {image} is not imported here", " ".join(filter(None, (near, how, other)))

    async def start(self, launch: Launch) -> Observation:
        return await self._engine.start(launch)

    async def stop(self, attempt_id: str, grace: float) -> None:
        await self._engine.stop(attempt_id, grace)

    async def output(self, attempt_id: str) -> AsyncIterator[bytes]:
        log = self._engine.log(attempt_id, Stream.MERGED)
        at = 0
        while log is not None:
            data = await log.read(at, _MAX_COUNT)
            at += len(data)
            if data:
                yield data
            elif not await log.grown(at, _LOOK) and await log.complete():
                return

    async def pids(self, attempt_id: str) -> Sequence[int]:
        try:
            return [process.pid for process in await self._engine.processes(attempt_id)]
        except ExecRefused:
            return ()


def _show_images(theirs: Path, ours: Path) -> None:
    """Each is named by a file that says where its files lie: with a copy of it, they are used where they are."""
    ours.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        for index in theirs.glob("*.json"):
            with suppress(OSError):
                shutil.copyfile(index, ours / index.name)


def _remove_groups(name: str) -> None:
    groups, _ = cgroups.find_cgroups(name=name)
    for _, parent in groups.parents if groups else ():
        with os.scandir(parent) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        cgroups.remove((*inner, parent))
