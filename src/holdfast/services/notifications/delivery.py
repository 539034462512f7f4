"""One attempt to deliver a notification, and its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class DeliveryResult(StrEnum):
    SENT = "sent"
    DEFERRED = "later"  # not delivered; a retry may succeed
    REFUSED = "refused"  # not delivered; a retry will most likely fail
    UNCONFIRMED = "unsure"  # sent completely, but no response arrived
    CLAIMED_ELSEWHERE = "taken"  # another sender has claimed it


ClaimCallback = Callable[[], Awaitable[bool]]  # called right before sending; False: do not send


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """The result of one attempt."""

    result: DeliveryResult
    message: str = ""
    wait: timedelta = timedelta()  # minimum before the next attempt


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
