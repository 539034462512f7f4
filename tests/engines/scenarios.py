"""Running scenarios on a real embedded engine."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.engines.base import EngineHealth, Isolation
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.task_folder import TaskFolder
from tests.contracts.engine_contract import TIMEOUT, Rig, sweep


@functools.cache
def health_here() -> EngineHealth:
    """What whoever runs the tests can have on this machine."""

    async def look(home: Path) -> EngineHealth:
        engine = EmbeddedEngine(home)
        await engine.open(lambda _: None)
        await engine.close()
        return engine.get_health()

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(look(Path(folder)))


def need(*isolations: Isolation) -> None:
    """Skip a test aloud where there is no such sandbox."""
    health = health_here()
    if health.isolation not in isolations:
        pytest.skip(f"needs isolation {' or '.join(isolations)}, here it is {health.isolation}: {health.notes}")


def need_isolation() -> None:
    if health_here().isolation is Isolation.NONE:
        pytest.skip(f"there is no sandbox here: {health_here().notes}")


def play(home: Path, scenario: Callable[[Rig], Awaitable[None]], options: EmbeddedOptions | None = None) -> None:
    async def go() -> None:
        rig = Rig(lambda: EmbeddedEngine(home, options))
        await rig.open()
        try:
            await asyncio.wait_for(_as_coroutine(scenario(rig)), TIMEOUT)
        finally:
            await sweep(rig.engine, [])
            await rig.close()

    asyncio.run(go())


def folder_of(home: Path, attempt_id: str) -> TaskFolder:
    return TaskFolder(str(home / "tasks" / attempt_id))


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work
