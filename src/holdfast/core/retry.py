"""Retry decisions from policy, history and exit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from .exits.exit import Exit, ExitKind, RetryBehaviour
from .messages import msg

RETRY_EVERY_FAILURE = -1
RETRY_ALWAYS = -2

MIN_CONFLICT_DELAY = 60.0  # seconds
MAX_CONFLICT_DELAY = 900.0  # seconds
MAX_PLATFORM_DELAY = 300.0  # seconds
MAX_USER_DELAY = 60.0  # seconds
MAX_IMMEDIATE_RETRIES = 3  # immediate; later retries are delayed


@dataclass(frozen=True, slots=True)
class RetryAfter:
    delay: timedelta
    counted: bool  # against the job's retry limit
    why: str


@dataclass(frozen=True, slots=True)
class NoRetry:
    why: str


def decide_retry(
    *, limit: int, user_retries: int, platform_retries: int, exit: Exit, chance: float
) -> RetryAfter | NoRetry:
    """`limit` is the retry count of the job or task; `chance` in [0, 1) picks the delay after a conflict."""
    if exit.kind in (ExitKind.CANCELLED, ExitKind.ATTEMPT_OVER):
        return NoRetry(msg("a stop was requested"))
    if limit == RETRY_ALWAYS:
        return _build_counted_retry(user_retries, msg("it is always retried, even after success"))
    if exit.kind is ExitKind.SUCCEEDED:
        return NoRetry(msg("it succeeded"))
    if exit.behaviour is RetryBehaviour.TRANSIENT:
        ours = exit.kind is ExitKind.PLATFORM
        why = (
            msg("the platform failed, not the job")
            if ours
            else msg("this failure is retried until the job succeeds or is stopped")
        )
        return RetryAfter(_compute_backoff(platform_retries, MAX_PLATFORM_DELAY), False, why)
    if exit.behaviour is RetryBehaviour.TRANSIENT_CONFLICT:
        seconds = MIN_CONFLICT_DELAY + chance * (MAX_CONFLICT_DELAY - MIN_CONFLICT_DELAY)
        return RetryAfter(timedelta(seconds=seconds), False, msg("it conflicted with other jobs"))
    if exit.behaviour is RetryBehaviour.PERMANENT:
        return NoRetry(msg("the failure is permanent"))
    if limit == RETRY_EVERY_FAILURE:
        return _build_counted_retry(user_retries, msg("every failure is retried"))
    if user_retries < limit:
        return _build_counted_retry(
            user_retries, msg("retry {number} of {limit}", number=user_retries + 1, limit=limit)
        )
    return NoRetry(msg("no retries are left") if limit else msg("no retries are configured"))


def _build_counted_retry(user_retries: int, why: str) -> RetryAfter:
    return RetryAfter(_compute_backoff(user_retries - MAX_IMMEDIATE_RETRIES, MAX_USER_DELAY), True, why)


def _compute_backoff(retries: int, most: float) -> timedelta:
    if retries < 0:
        return timedelta()
    return timedelta(seconds=min(most, 2.0 ** min(retries, 30)))
