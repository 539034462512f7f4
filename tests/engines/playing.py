"""Running scenarios on a real embedded engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.folder import TaskFolder
from tests.contracts.engine_contract import PATIENCE, Rig

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: an ordinary user has another sandbox")


def play(home: Path, scenario: Callable[[Rig], Awaitable[None]], options: EmbeddedOptions | None = None) -> None:
    async def go() -> None:
        rig = Rig(lambda: EmbeddedEngine(home, options))
        await rig.open()
        try:
            await asyncio.wait_for(_as_coroutine(scenario(rig)), PATIENCE)
        finally:
            await rig.engine.sweep([])
            await rig.close()

    asyncio.run(go())


def folder_of(home: Path, attempt_id: str) -> TaskFolder:
    return TaskFolder(str(home / "tasks" / attempt_id))


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work
