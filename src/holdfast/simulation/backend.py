"""Runs the tasks of a simulation on an engine that has its own state folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.image_names import list_name_variants
from holdfast.core.job import HOST_IMAGE
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import (
    ExecRefused,
    Isolation,
    LaunchSpec,
    LogStream,
    PullError,
    PullFailure,
    SupportsExec,
    SupportsImagePulls,
)

from .engine_setups import EngineSetup

_CHUNK_SIZE = 1 << 20  # bytes of output read at once
_POLL_TIMEOUT = 3600.0  # seconds; the end of a task is reported immediately
_STOP_TIMEOUT = 20.0  # seconds for a killed task to end


class Backend:
    def __init__(self, setup: EngineSetup, home: Path) -> None:
        self._setup = setup
        self._engine = setup.engine
        self._pulled_file = home / "pulled-images"
        self._is_open = False
        self._changed = asyncio.Event()  # a task has ended

    @property
    def name(self) -> str:
        return self._setup.name

    @property
    def isolated(self) -> bool:
        """Whether tasks have their own root file system."""
        return self._engine.get_health().isolation is not Isolation.NONE

    @property
    def can_start_tasks(self) -> bool:
        return not any(condition.blocks_starts for condition in self._engine.get_health().conditions)

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        """Prepare the engine. `on_change` is called for each end of a task. UserError if it cannot be used."""

        def report_change(seen: Observation) -> None:
            self._changed.set()
            on_change(seen)

        await self._setup.prepare()
        await self._engine.open(report_change)
        self._is_open = True
        self._setup.check_health(self._engine.get_health())

    async def close(self) -> None:
        """Stop all tasks and clean up."""
        try:
            if self._is_open:
                await self._remove_tasks()
                await self._remove_pulled_images()
        finally:
            await self._engine.close()
            await self._setup.clean_up()

    async def _remove_tasks(self) -> None:
        await self._setup.remove_files()
        names = await self._engine.list_attempts()
        for name in names:
            await self._engine.stop(name, 0)
        for name in names:
            await self._wait_until_ended(name)
            with suppress(OSError):
                await self._engine.remove(name)

    async def _wait_until_ended(self, attempt_id: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT):
                while True:
                    self._changed.clear()
                    seen = (await self._engine.observe([attempt_id]))[attempt_id].seen
                    if seen not in (ObservedState.RUNNING, ObservedState.HELD):
                        return
                    await self._changed.wait()

    def get_node(self) -> Node:
        return self._engine.list_nodes()[0]

    def list_notes(self) -> Sequence[str]:
        """Return the differences from a server's engine, as sentences."""
        return self._setup.list_notes(self._engine.get_health())

    # -- images

    async def find_image_problem(self, image: str) -> tuple[str, str] | None:
        """Return None if the image exists, else (problem, hint). An unknown image is pulled, as by a server."""
        if image == HOST_IMAGE:
            return self._setup.find_host_image_problem()
        names = [each.name for each in await self._engine.list_images()]
        known = list_name_variants(image) & {name for each in names for name in list_name_variants(each)}
        if known or self._setup.uses_host_for_unknown or await self._setup.is_image_present(image):
            return None
        if self._setup.pulls_unknown and self.isolated:
            return await self._pull_image(image)
        return self._setup.describe_missing_image(image, [name for name in names if name != HOST_IMAGE])

    async def _pull_image(self, image: str) -> tuple[str, str] | None:
        """Pull an image. It is removed with the simulation, also if that is killed."""
        assert isinstance(self._engine, SupportsImagePulls)
        with self._pulled_file.open("a") as file:
            file.write(f"{image}\n")
        try:
            await self._engine.pull_image(image)
        except PullError as error:
            own_hint = self._setup.pull_hint.format(image=image) if error.kind is PullFailure.DENIED else ""
            return error.message.removesuffix("."), own_hint or error.hint or ""
        return None

    async def _remove_pulled_images(self) -> None:
        with suppress(FileNotFoundError):
            for image in self._pulled_file.read_text().splitlines():
                if isinstance(self._engine, SupportsImagePulls):
                    await self._engine.remove_image(image)

    # -- tasks

    async def start(self, launch: LaunchSpec) -> Observation:
        self._setup.last_launch = launch
        return await self._engine.start(launch)

    async def stop(self, attempt_id: str, grace: float) -> None:
        await self._engine.stop(attempt_id, grace)

    async def read_output(self, attempt_id: str) -> AsyncIterator[bytes]:
        """Stream the output of a task until it ends."""
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
        """Return the process IDs of a task on this machine; empty if unknown."""
        if not isinstance(self._engine, SupportsExec):
            return ()
        try:
            return [process.pid for process in await self._engine.list_processes(attempt_id)]
        except ExecRefused:
            return ()
