from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast import supervision
from holdfast.supervision import run_supervised


def test_work_that_fails_is_logged_and_begins_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "MIN_RESTART_INTERVAL", 0.001)
    failures = [OSError("the disk is away"), RuntimeError("a bug")]

    async def work() -> None:
        if failures:
            raise failures.pop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run_supervised("example", work))
    assert not failures
    assert [record.__dict__["work"] for record in caplog.records] == ["example"] * 2
    assert all(record.exc_info for record in caplog.records)


def test_cancelled_work_ends() -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def work() -> None:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(run_supervised("example", work))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
