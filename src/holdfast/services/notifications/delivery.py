"""One attempt to deliver a notification, and its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class DeliveryResult(StrEnum):
    SENT = "sent"
    LATER = "later"  # it did not arrive, and may the next time
    REFUSED = "refused"  # it did not arrive, and most likely will not
    UNSURE = "unsure"  # all of it was sent, and no answer attempt
    TAKEN = "taken"  # somebody else is sending it


Claim = Callable[[], Awaitable[bool]]  # right before anything is sent; False: it must not be


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """Of one try."""

    result: DeliveryResult
    said: str = ""
    wait: timedelta = timedelta()  # at least, before the next try


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MailAttempt:
    said: str
    sent: bool = False
    refused: bool = False  # for good
    unsure: bool = False  # all of it was sent, and no answer attempt
    taken: bool = False  # somebody else is sending it
