"""Rate limits: requests with a valid token count by user, others by address; in fixed windows, in memory."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from starlette.responses import Response

from holdfast.services.client_network import get_client_network
from holdfast.settings_sections import OpenPaiSettings

MAX_WINDOWS = 20_000  # addresses or users; the oldest windows are removed first
MINUTE, HOUR = 60.0, 3600.0


class RateLimitedAction(StrEnum):
    """What is counted per user, in addition to the requests per address."""

    LIST = "list"
    SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class RateLimitStatus:
    limit: int
    remaining: int  # below 0: rejected
    reset_at: float  # seconds since the epoch
    reset_in: float

    def to_headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, self.remaining)),
            "X-RateLimit-Reset": str(math.ceil(self.reset_at)),
        }


class RateLimitExceeded(Exception):
    def __init__(self, standing: RateLimitStatus) -> None:
        super().__init__()
        self.status = standing


class RateLimits:
    def __init__(self, settings: OpenPaiSettings, clock: Callable[[], float] = time.time) -> None:
        self._requests = FixedWindowCounter(settings.requests_per_minute, MINUTE, clock)
        self._action_windows = {
            RateLimitedAction.LIST: FixedWindowCounter(settings.lists_per_minute, MINUTE, clock),
            RateLimitedAction.SUBMIT: FixedWindowCounter(settings.submits_per_hour, HOUR, clock),
        }

    def count_request(self, user: str, address: str) -> dict[str, str]:
        """Count a request; `user` is empty without a valid token. Return headers with the remaining requests, or raise
        RateLimitExceeded. Users and addresses count separately, so requests without a token use up no user's limit."""
        return _check_and_build_headers(
            self._requests.count_hit(f"user {user}" if user else f"from {get_client_network(address)}")
        )

    def count_action(self, limited: RateLimitedAction, user: str) -> dict[str, str]:
        return _check_and_build_headers(self._action_windows[limited].count_hit(user))


class FixedWindowCounter:
    def __init__(self, limit: int, length: float, clock: Callable[[], float]) -> None:
        self._limit, self._length, self._clock = limit, length, clock
        self._windows: OrderedDict[str, tuple[float, int]] = (
            OrderedDict()
        )  # key -> its end and count; earliest end first

    def count_hit(self, key: str) -> RateLimitStatus | None:
        """Count one request. Return None if there is no limit."""
        if not self._limit:
            return None
        now = self._clock()
        end, count = self._windows.get(key, (0.0, 0))
        if not now < end <= now + self._length:  # expired, or the clock was set back
            self._windows.pop(key, None)
            end, count = now + self._length, 0
        self._windows[key] = end, count + 1
        self._remove_expired(now)
        return RateLimitStatus(self._limit, self._limit - count - 1, end, end - now)

    def _remove_expired(self, now: float) -> None:
        while self._windows and (len(self._windows) > MAX_WINDOWS or next(iter(self._windows.values()))[0] <= now):
            self._windows.popitem(last=False)


def respond_rate_limited(error: RateLimitExceeded) -> Response:
    wait = {"Retry-After": str(max(1, math.ceil(error.status.reset_in)))}
    text = "Too many requests, please try again later."
    return Response(text, 429, {**error.status.to_headers(), **wait}, media_type="text/plain")


def _check_and_build_headers(standing: RateLimitStatus | None) -> dict[str, str]:
    if standing is None:
        return {}
    if standing.remaining < 0:
        raise RateLimitExceeded(standing)
    return standing.to_headers()
