"""The engine hears of ends from the kernel. Should it miss one, looking finds out all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.engines.embedded import EmbeddedEngine
from holdfast.engines.embedded.lifecycle.task_observer import TaskObserver
from tests.contracts.engine_contract import Rig, launch

from .scenarios import folder_of, play


async def lose_the_end(rig: Rig, home: Path) -> None:
    """A task ends, and the kernel's word of it never arrives."""
    await rig.start_and_wait_for(b"up", "a", "echo up\nsleep 600")
    assert isinstance(rig.engine, EmbeddedEngine)
    task = rig.engine._task_watch.get("a")
    assert task is not None
    assert task.pidfd is not None
    asyncio.get_running_loop().remove_reader(task.pidfd)
    await rig.engine.stop("a", 0)
    while folder_of(home, "a").is_alive():
        await asyncio.sleep(0.01)


def test_a_lost_end_is_found_by_looking(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await lose_the_end(rig, tmp_path)
        assert rig.engine._task_watch.get("a") is not None  # type: ignore[attr-defined]
        while (seen := await rig.look("a")).seen is ObservedState.RUNNING:
            await asyncio.sleep(0.01)
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 137)

    play(tmp_path, scenario)


def test_an_end_that_could_not_be_read_is_found_by_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("Input/output error")

    async def scenario(rig: Rig) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(TaskObserver, "observe_end", broken)
            assert (await rig.engine.start(launch("a", "exit 5"))).seen is ObservedState.RUNNING
            while rig.engine._task_watch.get("a") is not None:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
        seen = await rig.look("a")
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 5)

    play(tmp_path, scenario)
