from __future__ import annotations

import asyncio

import pytest

from holdfast.services import guessing
from holdfast.services.guessing import ADDRESS, PAIR, USER, WAITING, Guesses
from holdfast.services.refusals import TooManyRequests

from .house import Clock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Sleeps(list[float]):
    """How long was slept each time; a gate that is shut keeps sleepers asleep."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)
        await self.gate.wait()


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


@pytest.fixture
def guesses(clock: Clock, sleeps: Sleeps) -> Guesses:
    return Guesses(lambda: clock.monotonic, sleeps.sleep)


async def fail(guesses: Guesses, times: int, user: str = "alice", address: str = "10.0.0.1") -> None:
    for _ in range(times):
        await guesses.begin(user, address)


async def test_some_failures_are_free_then_one_waits_longer_and_longer(guesses: Guesses, clock: Clock) -> None:
    await fail(guesses, PAIR.free)
    waits = []
    for _ in range(4):
        with pytest.raises(TooManyRequests) as caught:
            await guesses.begin("alice", "10.0.0.1")
        waits.append(caught.value.retry_after)
        clock.forward(caught.value.retry_after)
        await guesses.begin("alice", "10.0.0.1")
    assert waits == [1, 2, 4, 8]


async def test_waits_have_an_end(guesses: Guesses, clock: Clock) -> None:
    for _ in range(60):
        clock.forward(PAIR.most)
        await fail(guesses, 1)
    clock.forward(PAIR.most)
    await fail(guesses, 1)


async def test_others_are_not_held_up(guesses: Guesses, sleeps: Sleeps) -> None:
    await fail(guesses, PAIR.free)
    await guesses.begin("bob", "10.0.0.1")
    await guesses.begin("alice", "10.0.0.2")
    assert sleeps == []


async def test_an_address_that_tries_many_users_is_slowed_down_and_never_shut_out(
    guesses: Guesses, sleeps: Sleeps
) -> None:
    for number in range(ADDRESS.free + 50):
        await guesses.begin(f"user{number}", "10.0.0.1")
    assert sleeps[:3] == [0.1, 0.2, 0.4]
    assert max(sleeps) == sleeps[-1] == ADDRESS.most
    await guesses.begin("the right one", "10.0.0.1")
    await guesses.begin("another", "10.0.0.2")
    assert len(sleeps) == 51


async def test_a_user_tried_from_many_addresses_is_slowed_down_and_never_shut_out(
    guesses: Guesses, sleeps: Sleeps
) -> None:
    for number in range(USER.free + 20):
        await guesses.begin("alice", f"10.0.1.{number}")
    await guesses.begin("alice", "10.0.2.1")
    assert len(sleeps) == 21
    assert sleeps[-1] == USER.most


async def test_only_so_many_wait_at_once(guesses: Guesses, sleeps: Sleeps) -> None:
    for number in range(ADDRESS.free):
        await guesses.begin(f"user{number}", "10.0.0.1")
    sleeps.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        for number in range(WAITING):
            tasks.create_task(guesses.begin(f"late{number}", "10.0.0.1"))
        while len(sleeps) < WAITING:
            await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await guesses.begin("alice", "10.0.0.1")
        await guesses.begin("alice", "10.0.0.2")  # nobody waits on her account
        sleeps.gate.set()
    await guesses.begin("alice", "10.0.0.1")


async def test_a_try_that_is_given_up_leaves_its_place(guesses: Guesses, sleeps: Sleeps) -> None:
    for number in range(ADDRESS.free):
        await guesses.begin(f"user{number}", "10.0.0.1")
    sleeps.gate.clear()
    for number in range(WAITING + 5):
        task = asyncio.create_task(guesses.begin(f"late{number}", "10.0.0.1"))
        while len(sleeps) <= number:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert not guesses._waiting


async def test_the_right_password_clears_the_count(guesses: Guesses) -> None:
    for _ in range(10):
        await fail(guesses, PAIR.free - 1)
        guesses.succeeded("alice", "10.0.0.1")
    await guesses.begin("alice", "10.0.0.1")


async def test_failures_are_forgotten(guesses: Guesses, clock: Clock) -> None:
    await fail(guesses, PAIR.free)
    clock.forward(guessing.FORGET_AFTER + 1)
    await fail(guesses, PAIR.free)


async def test_memory_is_bounded(guesses: Guesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "REMEMBER", 100)
    for number in range(1000):
        await guesses.begin(f"user{number}", f"10.{number // 250}.0.{number % 250}")
    assert len(guesses._counts) <= 100
