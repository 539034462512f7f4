"""Rate limits: requests with a valid token count by user, others by address; in windows of fixed length, in memory."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from starlette.responses import Response

from holdfast.services.client_network import client_network
from holdfast.settings import OpenPaiSettings

REMEMBER = 20_000  # addresses or users; the oldest windows go first
MINUTE, HOUR = 60.0, 3600.0


class Limited(StrEnum):
    """What is counted per user, beside all that is counted per address."""

    LIST = "list"
    SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class Standing:
    limit: int
    left: int  # below 0: refused
    reset_at: float  # seconds since the epoch
    reset_in: float

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, self.left)),
            "X-RateLimit-Reset": str(math.ceil(self.reset_at)),
        }


class TooOften(Exception):
    def __init__(self, standing: Standing) -> None:
        super().__init__()
        self.standing = standing


class Rates:
    def __init__(self, settings: OpenPaiSettings, clock: Callable[[], float] = time.time) -> None:
        self._requests = Windows(settings.requests_per_minute, MINUTE, clock)
        self._by_user = {
            Limited.LIST: Windows(settings.lists_per_minute, MINUTE, clock),
            Limited.SUBMIT: Windows(settings.submits_per_hour, HOUR, clock),
        }

    def count_request(self, user: str, address: str) -> dict[str, str]:
        """Count a request; `user` is empty without a valid token. Returns the headers with what is left; TooOften when
        nothing was. The two are counted apart, so no flood without a token uses up what a user has left."""
        return _admit(self._requests.count(f"user {user}" if user else f"from {client_network(address)}"))

    def user(self, limited: Limited, user: str) -> dict[str, str]:
        return _admit(self._by_user[limited].count(user))


class Windows:
    def __init__(self, limit: int, length: float, clock: Callable[[], float]) -> None:
        self._limit, self._length, self._clock = limit, length, clock
        self._open: OrderedDict[str, tuple[float, int]] = OrderedDict()  # key -> its end and count; first to end first

    def count(self, key: str) -> Standing | None:
        """None: there is no limit."""
        if not self._limit:
            return None
        now = self._clock()
        end, count = self._open.get(key, (0.0, 0))
        if not now < end <= now + self._length:  # over, or the clock was set back
            self._open.pop(key, None)
            end, count = now + self._length, 0
        self._open[key] = end, count + 1
        self._tidy(now)
        return Standing(self._limit, self._limit - count - 1, end, end - now)

    def _tidy(self, now: float) -> None:
        while self._open and (len(self._open) > REMEMBER or next(iter(self._open.values()))[0] <= now):
            self._open.popitem(last=False)


def refuse(error: TooOften) -> Response:
    wait = {"Retry-After": str(max(1, math.ceil(error.standing.reset_in)))}
    text = "Too many requests, please try again later."
    return Response(text, 429, {**error.standing.headers(), **wait}, media_type="text/plain")


def _admit(standing: Standing | None) -> dict[str, str]:
    if standing is None:
        return {}
    if standing.left < 0:
        raise TooOften(standing)
    return standing.headers()
