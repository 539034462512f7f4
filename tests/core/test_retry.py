"""Retry by cause, as OpenPAI's rules have it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.exits.exit import (
    Exit,
    ExitKind,
    RetryBehaviour,
    build_platform_exit,
    build_refused_exit,
    classify_exit,
)
from holdfast.core.retry import NoRetry, RetryAfter, decide_retry

FAILED = classify_exit(1)
SUCCEEDED = classify_exit(0)
CONFLICT = Exit(kind=ExitKind.PLATFORM, message="conflict", behaviour=RetryBehaviour.TRANSIENT_CONFLICT)
CANCELLED = Exit(kind=ExitKind.CANCELLED, message="stopped")


def decide(exit: Exit, limit: int = 0, user: int = 0, platform: int = 0, chance: float = 0.0) -> RetryAfter | NoRetry:
    return decide_retry(limit=limit, user_retries=user, platform_retries=platform, exit=exit, chance=chance)


@pytest.mark.parametrize(
    ("exit", "limit", "user", "retried", "counted"),
    [
        (FAILED, 0, 0, False, None),
        (FAILED, 2, 0, True, True),
        (FAILED, 2, 1, True, True),
        (FAILED, 2, 2, False, None),
        (FAILED, -1, 99, True, True),
        (SUCCEEDED, -1, 0, False, None),
        (SUCCEEDED, 5, 0, False, None),
        (SUCCEEDED, -2, 7, True, True),
        (FAILED, -2, 7, True, True),
        (build_platform_exit("node gone"), 0, 0, True, False),
        (CONFLICT, 0, 0, True, False),
        (build_refused_exit("too big"), 5, 0, False, None),
        (build_refused_exit("too big"), -1, 0, False, None),
        (build_refused_exit("too big"), -2, 0, True, True),
        (classify_exit(137, oom=True), 5, 0, False, None),
        (classify_exit(135), 5, 0, False, None),  # SIGBUS ends the same way again
        (classify_exit(139), 5, 0, True, True),  # SIGSEGV may not
        (CANCELLED, 5, 0, False, None),
        (CANCELLED, -2, 0, False, None),
    ],
)
def test_table(exit: Exit, limit: int, user: int, retried: bool, counted: bool | None) -> None:
    verdict = decide(exit, limit, user)
    assert isinstance(verdict, RetryAfter) is retried
    if isinstance(verdict, RetryAfter):
        assert verdict.counted is counted


@given(st.floats(0, 1, exclude_max=True))
def test_a_conflict_waits_one_to_fifteen_minutes(chance: float) -> None:
    verdict = decide(CONFLICT, chance=chance)
    assert isinstance(verdict, RetryAfter)
    assert timedelta(seconds=60) <= verdict.delay <= timedelta(seconds=900)


@given(st.integers(0, 10_000))
def test_waits_grow_and_are_bounded(retries: int) -> None:
    earlier = decide(build_platform_exit("x"), platform=retries)
    later = decide(build_platform_exit("x"), platform=retries + 1)
    assert isinstance(earlier, RetryAfter)
    assert isinstance(later, RetryAfter)
    assert timedelta() < earlier.delay <= later.delay <= timedelta(minutes=5)


def test_the_first_retries_of_a_program_come_at_once() -> None:
    delays = [decide(FAILED, limit=-1, user=n) for n in range(6)]
    assert [verdict.delay.total_seconds() for verdict in delays if isinstance(verdict, RetryAfter)] == [
        0,
        0,
        0,
        1,
        2,
        4,
    ]
