from __future__ import annotations

import pytest

from holdfast.services import guessing
from holdfast.services.guessing import ADDRESS, PAIR, USER, Guesses
from holdfast.services.refusals import TooManyRequests

from .house import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guesses(clock: Clock) -> Guesses:
    return Guesses(lambda: clock.monotonic)


def fail(guesses: Guesses, times: int, user: str = "alice", address: str = "10.0.0.1") -> None:
    for _ in range(times):
        guesses.begin(user, address)


def test_some_failures_are_free_then_one_waits_longer_and_longer(guesses: Guesses, clock: Clock) -> None:
    fail(guesses, PAIR.free)
    waits = []
    for _ in range(4):
        with pytest.raises(TooManyRequests) as caught:
            guesses.begin("alice", "10.0.0.1")
        waits.append(caught.value.retry_after)
        clock.forward(caught.value.retry_after)
        guesses.begin("alice", "10.0.0.1")
    assert waits == [1, 2, 4, 8]


def test_waits_have_an_end(guesses: Guesses, clock: Clock) -> None:
    for _ in range(60):
        clock.forward(PAIR.most)
        fail(guesses, 1)
    clock.forward(PAIR.most)
    fail(guesses, 1)


def test_others_are_not_held_up(guesses: Guesses) -> None:
    fail(guesses, PAIR.free)
    guesses.begin("bob", "10.0.0.1")
    guesses.begin("alice", "10.0.0.2")


def test_one_address_cannot_try_users_for_ever(guesses: Guesses) -> None:
    for number in range(ADDRESS.free):
        guesses.begin(f"user{number}", "10.0.0.1")
    with pytest.raises(TooManyRequests):
        guesses.begin("another", "10.0.0.1")


def test_many_addresses_cannot_try_one_user_for_ever(guesses: Guesses, clock: Clock) -> None:
    for number in range(USER.free):
        guesses.begin("alice", f"10.0.1.{number}")
    with pytest.raises(TooManyRequests) as caught:
        guesses.begin("alice", "10.0.2.1")
    assert caught.value.retry_after <= USER.most


def test_the_right_password_clears_the_count(guesses: Guesses) -> None:
    for _ in range(10):
        fail(guesses, PAIR.free - 1)
        guesses.succeeded("alice", "10.0.0.1")
    guesses.begin("alice", "10.0.0.1")


def test_failures_are_forgotten(guesses: Guesses, clock: Clock) -> None:
    fail(guesses, PAIR.free)
    clock.forward(guessing.FORGET_AFTER + 1)
    fail(guesses, PAIR.free)


def test_memory_is_bounded(guesses: Guesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "REMEMBER", 100)
    for number in range(1000):
        guesses.begin(f"user{number}", f"10.{number // 250}.0.{number % 250}")
    assert len(guesses._counts) <= 100
