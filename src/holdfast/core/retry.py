"""Whether to try again: policy, history and exit -> RetryAfter or GiveUp."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from .exits.exit import Behaviour, Exit, ExitKind
from .messages import msg

EVERY_FAILURE = -1
ALWAYS = -2

CONFLICT_MIN = 60.0  # seconds
CONFLICT_MAX = 900.0
PLATFORM_MAX = 300.0
USER_MAX = 60.0
FREE_USER_RETRIES = 3  # that many come at once; a program that goes on failing is slowed down


@dataclass(frozen=True, slots=True)
class RetryAfter:
    delay: timedelta
    counted: bool  # against the user's own count
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    why: str


def decide_retry(
    *, limit: int, user_retries: int, platform_retries: int, exit: Exit, chance: float
) -> RetryAfter | GiveUp:
    """`limit` is the job's or task's own count; `chance` in [0, 1) picks the wait after a conflict."""
    if exit.kind in (ExitKind.CANCELLED, ExitKind.ATTEMPT_OVER):
        return GiveUp(msg("it was asked to stop"))
    if limit == ALWAYS:
        return _counted(user_retries, msg("it is to be run again whatever happens"))
    if exit.kind is ExitKind.SUCCEEDED:
        return GiveUp(msg("it succeeded"))
    if exit.behaviour is Behaviour.TRANSIENT:
        ours = exit.kind is ExitKind.PLATFORM
        why = (
            msg("the platform failed, not the job")
            if ours
            else msg("an end like this is tried again until it goes well or is stopped")
        )
        return RetryAfter(_backoff(platform_retries, PLATFORM_MAX), False, why)
    if exit.behaviour is Behaviour.TRANSIENT_CONFLICT:
        seconds = CONFLICT_MIN + chance * (CONFLICT_MAX - CONFLICT_MIN)
        return RetryAfter(timedelta(seconds=seconds), False, msg("it conflicted with other jobs"))
    if exit.behaviour is Behaviour.PERMANENT:
        return GiveUp(msg("another try would end the same way"))
    if limit == EVERY_FAILURE:
        return _counted(user_retries, msg("every failure is to be retried"))
    if user_retries < limit:
        return _counted(user_retries, msg("retry {x1} of {limit}", x1=user_retries + 1, limit=limit))
    return GiveUp(msg("no retries are left") if limit else msg("no retries were asked for"))


def _counted(user_retries: int, why: str) -> RetryAfter:
    return RetryAfter(_backoff(user_retries - FREE_USER_RETRIES, USER_MAX), True, why)


def _backoff(retries: int, most: float) -> timedelta:
    if retries < 0:
        return timedelta()
    return timedelta(seconds=min(most, 2.0 ** min(retries, 30)))
