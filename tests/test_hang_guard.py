"""Calls that may never return hold up nothing else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from holdfast.hang_guard import MAX_PENDING_CALLS, HangGuard, NotResponding


def test_what_does_not_answer_is_asked_once_and_told_at_once() -> None:
    asked, answer = [], threading.Event()

    def look() -> None:
        asked.append(1)
        answer.wait()

    async def go() -> None:
        reach = HangGuard("test")
        both = await asyncio.gather(
            *(reach.run_once_per_path("/dead", look, 0.05) for _ in range(5)), return_exceptions=True
        )
        assert [type(each) for each in both] == [NotResponding] * 5
        with pytest.raises(NotResponding):
            await reach.run_once_per_path("/dead", look, 0.05)
        await reach.run_once_per_path("/alive", lambda: None, 60)
        await reach.run_once_per_path("/odd", lambda: 1 / 0, 60)  # an error is an answer
        assert asked == [1]
        answer.set()
        while reach._pending_calls:
            await asyncio.sleep(0.001)
        await reach.run_once_per_path("/dead", look, 60)
        assert asked == [1, 1]

    asyncio.run(go())


def test_those_who_look_at_the_same_time_are_told_the_same() -> None:
    async def go() -> None:
        reach, answer = HangGuard("test"), threading.Event()
        looks = [asyncio.ensure_future(reach.run_once_per_path("/here", answer.wait, 60)) for _ in range(4)]
        await asyncio.sleep(0)
        answer.set()
        assert await asyncio.gather(*looks) == [True] * 4

    asyncio.run(go())


def test_results_and_errors_come_back() -> None:
    async def go() -> None:
        reach = HangGuard("test")
        assert await reach.run_with_timeout(lambda: 7, 60) == 7
        with pytest.raises(ZeroDivisionError):
            await reach.run_with_timeout(lambda: 1 / 0, 60)

    asyncio.run(go())


def test_only_so_many_threads_are_lost() -> None:
    answer = threading.Event()

    async def go() -> None:
        reach = HangGuard("test")
        calls = [asyncio.ensure_future(reach.run_with_timeout(answer.wait, 60)) for _ in range(MAX_PENDING_CALLS)]
        await asyncio.sleep(0)
        with pytest.raises(NotResponding):
            await reach.run_with_timeout(lambda: 1, 60)
        answer.set()
        assert await asyncio.gather(*calls) == [True] * MAX_PENDING_CALLS
        assert await reach.run_with_timeout(lambda: 1, 60) == 1

    asyncio.run(go())


def test_a_process_ends_though_a_call_has_not() -> None:
    program = """
import asyncio, threading
from holdfast.hang_guard import HangGuard, NotResponding

async def go():
    try:
        await HangGuard("test").run_with_timeout(threading.Event().wait, 0.01)
    except NotResponding:
        print("told")

asyncio.run(go())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("how", ["run", "look"])
async def test_a_cancellation_that_comes_with_the_answer_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, how: str, steps: int
) -> None:
    """A server that ends just then would wait for ever for whoever went on."""
    reach, answer = HangGuard("test"), asyncio.get_running_loop().create_future()
    monkeypatch.setattr(reach, "start_call", lambda call: answer)
    nothing = lambda: None  # noqa: E731
    task = asyncio.create_task(
        reach.run_with_timeout(nothing, 60) if how == "run" else reach.run_once_per_path("/", nothing, 60)
    )
    for _ in range(3):
        await asyncio.sleep(0)
    answer.set_result(None)
    for _ in range(steps):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
    assert task.done()
